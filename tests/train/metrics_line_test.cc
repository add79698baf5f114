#include "engine/train/metrics_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace snug::core {
namespace {

constexpr char kStep[] =
    R"({"kind": "step", "step": 7, "loss": 0.25, "accuracy": null, "epoch": 1, "learning_rate": 0.1, "seconds": 2e-3})";

TEST(MetricsLine, IsReadAsItIsWritten) {
  const std::optional<MetricsLine> line = ParseMetricsLine(kStep);
  ASSERT_TRUE(line.has_value());
  EXPECT_FALSE(line->evaluation);
  EXPECT_EQ(line->step, 7);
  EXPECT_EQ(line->epoch, 1);
  EXPECT_EQ(line->rate, 0.1);
  EXPECT_EQ(line->seconds, 0.002);
  EXPECT_FALSE(line->waited.has_value());  // as earlier versions wrote it
  ASSERT_EQ(line->metrics.size(), 2u);
  EXPECT_EQ(line->metrics[0], (std::pair<std::string, double>("loss", 0.25)));
  EXPECT_TRUE(std::isnan(line->metrics[1].second));
  EXPECT_TRUE(ParseMetricsLine(R"({"kind": "evaluation", "step": 7, "loss": -1})")->evaluation);
}

TEST(MetricsLine, HowLongDataWereWaitedForIsNoMetric) {
  const std::optional<MetricsLine> line =
      ParseMetricsLine(R"({"kind": "step", "step": 7, "loss": 0.25, "seconds": 0.5, "waited": 0.125})");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->waited, 0.125);
  EXPECT_EQ(line->metrics.size(), 1u);
}

TEST(MetricsLine, AChangeIsNoStep) {
  const auto line =
      ParseMetricsLine(R"({"kind": "change", "step": 3, "name": "batch", "before": "32", "after": "16"})");
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->change);
  EXPECT_TRUE(line->metrics.empty());
  EXPECT_FALSE(ParseMetricsLine(kStep)->change);
}

TEST(MetricsLine, WhatItDoesNotKnowIsPassedOver) {
  const auto line = ParseMetricsLine(R"({"kind":"step","step":0,"note":"a","list":[1,{"b":2}],"loss":1})");
  ASSERT_TRUE(line.has_value());
  ASSERT_EQ(line->metrics.size(), 1u);
}

TEST(MetricsLine, TheFirstStepCounts) {
  const auto line = ParseMetricsLine(R"({"kind": "step", "step": 3, "step": 0.5, "loss": 1})");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->step, 3);
  EXPECT_EQ(line->metrics, (Metrics{{"loss", 1}}));
}

TEST(MetricsLine, OtherThingsAreNone) {
  for (const char* text :
       {"", "{}", "null", "[]", R"({"kind": "step"})", R"({"step": 1})", R"({"kind": "x", "step": 1})",
        R"({"kind": "step", "step": -1})", R"({"kind": "step", "step": 1e300})", R"({"kind": "step", "step": null})",
        R"({"kind": 3, "step": 1})", R"({"kind": "step", "step": 1} more)"}) {
    EXPECT_FALSE(ParseMetricsLine(text).has_value()) << text;
  }
}

TEST(MetricsLine, APartOfALineIsNone) {
  const std::string whole = kStep;
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_FALSE(ParseMetricsLine(whole.substr(0, i)).has_value()) << i;
}

TEST(MetricsLine, DamagedLinesDoNoHarm) {
  std::mt19937 random(5);
  const std::string whole = kStep;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto line = ParseMetricsLine(text);
    EXPECT_GE(line.value_or(MetricsLine{}).step, 0);
  }
  EXPECT_FALSE(ParseMetricsLine(std::string(100'000, '[')).has_value());
  EXPECT_FALSE(ParseMetricsLine(R"({"kind": "step", "step": 1, "a": )" + std::string(100'000, '[')).has_value());
}

}  // namespace
}  // namespace snug::core
