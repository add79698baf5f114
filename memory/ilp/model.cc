#include "memory/ilp/model.h"

#include <algorithm>
#include <cmath>

namespace snug::core::memory {

void IlpModel::AddConstraint(absl::Span<const LinearTerm> terms, double lower, double upper) {
  const size_t begin = columns_.size();
  std::vector<LinearTerm> sorted(terms.begin(), terms.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LinearTerm& a, const LinearTerm& b) { return a.variable < b.variable; });
  for (const LinearTerm& term : sorted) {
    if (columns_.size() > begin && columns_.back() == term.variable) {
      factors_.back() += term.factor;
    } else {
      columns_.push_back(term.variable);
      factors_.push_back(term.factor);
    }
  }
  row_begin_.push_back(static_cast<int32_t>(columns_.size()));
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
}

double IlpModel::Objective(absl::Span<const double> values) const {
  double objective = 0;
  for (size_t i = 0; i < cost_.size(); ++i) objective += cost_[i] * values[i];
  return objective;
}

bool IlpModel::Satisfies(absl::Span<const double> values, double tolerance) const {
  if (values.size() != cost_.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < lower_[i] - tolerance || values[i] > upper_[i] + tolerance) return false;
    if (integer_[i] && std::abs(values[i] - std::round(values[i])) > tolerance) return false;
  }
  for (size_t row = 0; row < row_lower_.size(); ++row) {
    double sum = 0;
    for (auto i = static_cast<size_t>(row_begin_[row]); i < static_cast<size_t>(row_begin_[row + 1]); ++i) {
      sum += factors_[i] * values[static_cast<size_t>(columns_[i])];
    }
    if (sum < row_lower_[row] - tolerance || sum > row_upper_[row] + tolerance) return false;
  }
  return true;
}

}  // namespace snug::core::memory
