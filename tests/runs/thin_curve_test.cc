#include "tools/runs/thin_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace snug::core::runs {
namespace {

TEST(ThinCurve, KeepsEveryPointWhileThereIsRoom) {
  ThinCurve curve;
  for (int i = 1; i <= 3; ++i) curve.Add(i, 0.5 * i, 10.0 / i);
  ASSERT_EQ(curve.points().size(), 3u);
  EXPECT_EQ(curve.points()[2].step, 3);
  EXPECT_EQ(curve.points()[2].seconds, 1.5);
  EXPECT_EQ(curve.points()[1].mean, 5);
  EXPECT_EQ(curve.merges(), 0);
}

TEST(ThinCurve, MergesNeighboursAndLosesNoExtreme) {
  ThinCurve curve;
  double sum = 0;
  constexpr int kValues = 100'000;
  for (int i = 0; i < kValues; ++i) {
    const double value = i == 31'337 ? 1e6 : i % 7;
    sum += value;
    curve.Add(i, i, value);
    ASSERT_LE(curve.points().size(), ThinCurve::kMostPoints);
  }
  EXPECT_GT(curve.points().size(), ThinCurve::kMostPoints / 4);
  EXPECT_EQ(curve.points().back().step, kValues - 1);
  double mean_sum = 0, most = 0;
  int64_t count = 0, before = -1;
  for (const ThinCurve::Point& point : curve.points()) {
    EXPECT_GT(point.step, before);
    before = point.step;
    mean_sum += point.mean * static_cast<double>(point.finite);
    count += point.finite;
    most = std::max(most, point.high);
    EXPECT_LE(point.low, point.mean);
    EXPECT_LE(point.mean, point.high);
  }
  EXPECT_EQ(count, kValues);
  EXPECT_NEAR(mean_sum, sum, 1e-6 * sum);
  EXPECT_EQ(most, 1e6);
  EXPECT_EQ(curve.most()->step, 31'337);
  EXPECT_EQ(curve.least()->step, 0);
  EXPECT_EQ(curve.added(), kValues);
}

TEST(ThinCurve, WhatIsNotFiniteCountsInNoMean) {
  ThinCurve curve;
  curve.Add(1, 1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(curve.points()[0].mean));
  EXPECT_FALSE(curve.least().has_value());
  for (int i = 2; i < 3000; ++i) curve.Add(i, i, i % 2 == 0 ? 4 : std::numeric_limits<double>::infinity());
  for (const ThinCurve::Point& point : curve.points()) EXPECT_EQ(point.mean, 4);
  EXPECT_TRUE(std::isinf(*curve.last()));
}

}  // namespace
}  // namespace snug::core::runs
