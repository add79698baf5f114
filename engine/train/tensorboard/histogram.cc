#include "engine/train/tensorboard/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace snug::core::tensorboard {
namespace {

// The limits of TensorFlow's own histograms.
std::vector<double> MakeLimits() {
  constexpr double kLeast = 1e-12, kMost = 1e20, kGrowth = 1.1;
  std::vector<double> above;
  for (double limit = kLeast; limit < kMost; limit *= kGrowth) above.push_back(limit);
  std::vector<double> limits = {-std::numeric_limits<double>::max()};
  for (auto it = above.rbegin(); it != above.rend(); ++it) limits.push_back(-*it);
  limits.push_back(0);
  limits.insert(limits.end(), above.begin(), above.end());
  limits.push_back(std::numeric_limits<double>::max());
  return limits;
}

}  // namespace

Histogram HistogramOf(absl::Span<const double> numbers) {
  static const std::vector<double>& limits = *new std::vector<double>(MakeLimits());
  Histogram histogram;
  std::vector<double> counts(limits.size(), 0);
  for (const double x : numbers) {
    if (!std::isfinite(x)) continue;
    histogram.min = histogram.count == 0 ? x : std::min(histogram.min, x);
    histogram.max = histogram.count == 0 ? x : std::max(histogram.max, x);
    histogram.sum += x;
    histogram.sum_squares += x * x;
    ++histogram.count;
    const auto above = std::upper_bound(limits.begin(), limits.end(), x);
    ++counts[std::min(static_cast<size_t>(above - limits.begin()), limits.size() - 1)];
  }
  if (histogram.count == 0) return histogram;
  size_t first = 0, last = counts.size();
  while (counts[first] == 0) ++first;
  while (counts[last - 1] == 0) --last;
  if (first > 0) --first;
  histogram.limits.assign(limits.begin() + static_cast<int64_t>(first), limits.begin() + static_cast<int64_t>(last));
  histogram.counts.assign(counts.begin() + static_cast<int64_t>(first), counts.begin() + static_cast<int64_t>(last));
  return histogram;
}

}  // namespace snug::core::tensorboard
