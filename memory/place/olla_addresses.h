// Writes OLLA's offsets as linear constraints (section 3.3): an address for each buffer, and for each pair that may be
// live together binaries that say which of the two lies below.
#pragma once

#include <absl/types/span.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "memory/ilp/model.h"

namespace snug::core::memory {

class OllaAddresses {
 public:
  // No buffer may end above `top`, nor above the variable `arena`.
  OllaAddresses(double top, int32_t arena, IlpModel* model) : top_(top), arena_(arena), model_(model) {}

  // Adds a buffer. Whatever lies above it begins at least `spacing` >= `size` above its address. fixed >= 0 is its
  // address.
  int32_t Add(double size, double spacing, double fixed = -1);

  // Keeps the two from ever overlapping.
  void KeepApart(int32_t a, int32_t b);

  // The two do not overlap if the sum of the returned variables is 1; if it is 0 they may.
  std::vector<LinearTerm> MayKeepApart(int32_t a, int32_t b);

  // Returns the buffer's address. A buffer that the solver says nothing about (NaN) goes above all others.
  double Address(int32_t buffer, absl::Span<const double> values) const {
    const double address = values[static_cast<size_t>(buffers_[static_cast<size_t>(buffer)].variable)];
    return std::isnan(address) ? top_ : address;
  }

  // Writes the values of the variables for these addresses, which are in the sequence of Add.
  void Encode(const std::vector<double>& addresses, std::vector<double>* values) const;

 private:
  struct Variable {
    int32_t variable;
    double spacing;
  };
  struct Pair {
    int32_t below, above;
    int32_t variable;  // 1 when `below` lies below
    bool inverted;     // 0 means that instead
  };

  // Makes a lie below b if `below_first` is 1, or with `inverted` if it is 0.
  void AddOrder(int32_t a, int32_t b, int32_t below_first, bool inverted);

  double top_;
  int32_t arena_;
  IlpModel* model_;
  std::vector<Variable> buffers_;
  std::vector<Pair> pairs_;
};

}  // namespace snug::core::memory
