#include "engine/train/tensorboard/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace snug::core::tensorboard {
namespace {

TEST(Histogram, CountsEveryFiniteNumberOnceInItsBucket) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers = {-3, -1e-3, 0, 0, 1e-15, 0.5, 0.52, 1e25, NAN, inf};
  const Histogram h = HistogramOf(numbers);
  EXPECT_EQ(h.count, 8);
  EXPECT_EQ(h.min, -3);
  EXPECT_EQ(h.max, 1e25);
  EXPECT_DOUBLE_EQ(h.sum, -3 - 1e-3 + 1e-15 + 0.5 + 0.52 + 1e25);
  ASSERT_EQ(h.limits.size(), h.counts.size());
  EXPECT_EQ(std::accumulate(h.counts.begin(), h.counts.end(), 0.0), 8);
  for (size_t i = 1; i < h.limits.size(); ++i) {
    double expected = 0;
    for (const double x : numbers) expected += x >= h.limits[i - 1] && x < h.limits[i] ? 1 : 0;
    EXPECT_EQ(h.counts[i], expected) << h.limits[i];
  }
  EXPECT_EQ(h.counts.front(), 0);
  EXPECT_GT(h.counts.back(), 0);
}

TEST(Histogram, OfNothingIsEmpty) {
  EXPECT_EQ(HistogramOf({}).count, 0);
  EXPECT_TRUE(HistogramOf({}).limits.empty());
}

}  // namespace
}  // namespace snug::core::tensorboard
