// An integer linear program, to be minimised: variables with bounds, costs and integrality, and linear constraints. It
// is built once, row by row, in the compressed form that every solver takes.
#pragma once

#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace snug::core::memory {

struct LinearTerm {
  int32_t variable = -1;
  double factor = 0;
};

class IlpModel {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  int32_t AddVariable(double lower, double upper, bool integer, double cost = 0) {
    lower_.push_back(lower);
    upper_.push_back(upper);
    integer_.push_back(integer);
    cost_.push_back(cost);
    return static_cast<int32_t>(cost_.size()) - 1;
  }
  int32_t AddBinary() { return AddVariable(0, 1, true); }

  // lower <= sum of terms <= upper. A variable may stand in several terms of a row.
  void AddConstraint(absl::Span<const LinearTerm> terms, double lower, double upper);

  int32_t variables() const { return static_cast<int32_t>(cost_.size()); }
  int32_t constraints() const { return static_cast<int32_t>(row_lower_.size()); }
  int64_t terms() const { return static_cast<int64_t>(columns_.size()); }

  const std::vector<double>& lower() const { return lower_; }
  const std::vector<double>& upper() const { return upper_; }
  const std::vector<double>& cost() const { return cost_; }
  const std::vector<bool>& integer() const { return integer_; }
  const std::vector<double>& row_lower() const { return row_lower_; }
  const std::vector<double>& row_upper() const { return row_upper_; }
  // Row r has columns()[i] and factors()[i] for i from row_begin()[r] to row_begin()[r + 1].
  const std::vector<int32_t>& row_begin() const { return row_begin_; }
  const std::vector<int32_t>& columns() const { return columns_; }
  const std::vector<double>& factors() const { return factors_; }

  double Objective(absl::Span<const double> values) const;

  // Tells whether `values` keep all bounds, constraints and integrality, each to within `tolerance`.
  bool Satisfies(absl::Span<const double> values, double tolerance) const;

 private:
  std::vector<double> lower_, upper_, cost_;
  std::vector<bool> integer_;
  std::vector<double> row_lower_, row_upper_;
  std::vector<int32_t> row_begin_ = {0};
  std::vector<int32_t> columns_;
  std::vector<double> factors_;
};

}  // namespace snug::core::memory
