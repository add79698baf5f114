// The offsets of OLLA as linear constraints (section 3.3): an address for each buffer, and for each pair that may be
// live together binaries that say which of the two lies below.
#pragma once

#include <absl/types/span.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "memory/ilp/model.h"

namespace snug::memory {

class OllaAddresses {
 public:
  // No buffer ends above `top`, nor above the variable `arena`.
  OllaAddresses(double top, int32_t arena, IlpModel* model) : top_(top), arena_(arena), model_(model) {}

  // What lies above the buffer begins `spacing` >= `size` above it. fixed >= 0: its address.
  int32_t Add(double size, double spacing, double fixed = -1);

  // The two never overlap.
  void KeepApart(int32_t a, int32_t b);

  // The two do not overlap if the sum of the returned variables is 1, and may if it is 0.
  std::vector<LinearTerm> MayKeepApart(int32_t a, int32_t b);

  // One that the solver does not tell (NaN) is above all others.
  double Address(int32_t buffer, absl::Span<const double> values) const {
    const double address = values[static_cast<size_t>(buffers_[static_cast<size_t>(buffer)].variable)];
    return std::isnan(address) ? top_ : address;
  }

  // Writes the variables that stand for these addresses of the buffers, in the sequence of Add.
  void Encode(const std::vector<double>& addresses, std::vector<double>* values) const;

 private:
  struct Variable {
    int32_t variable;
    double spacing;
  };
  struct Pair {
    int32_t below, above;
    int32_t variable;  // 1: `below` lies below
    bool inverted;     // it is 0 then
  };

  // If `below_first` is 1, a lies below b. In `Inverted`, if it is 0.
  void AddOrder(int32_t a, int32_t b, int32_t below_first, bool inverted);

  double top_;
  int32_t arena_;
  IlpModel* model_;
  std::vector<Variable> buffers_;
  std::vector<Pair> pairs_;
};

}  // namespace snug::memory
