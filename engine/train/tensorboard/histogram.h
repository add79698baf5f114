// How the numbers of a tensor are distributed, in the buckets that TensorFlow and PyTorch write: limits that grow by a
// tenth, on both sides of 0.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace snug::core::tensorboard {

struct Histogram {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  int64_t count = 0;
  // counts[i] numbers lie in [limits[i - 1], limits[i]). Empty buckets at the ends are left out, all but one at the low
  // end, which says where the first counted bucket begins.
  std::vector<double> limits, counts;
};

// Of the numbers that are finite.
Histogram HistogramOf(absl::Span<const double> numbers);

}  // namespace snug::core::tensorboard
