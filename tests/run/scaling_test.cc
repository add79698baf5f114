// engine/run/observe/scaling.h: the model, on times that are known.
#include "engine/run/observe/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug::core {
namespace {

constexpr ByThreads kCopyThatScales = {.one = 10e9, .two = 20e9, .all = 20e9};
constexpr ByThreads kCopyThatDoesNot = {.one = 10e9, .two = 12e9, .all = 12e9};

const Scaling::Part& PartOf(const Scaling& scaling, const std::string& op) {
  for (const Scaling::Part& part : scaling.parts()) {
    if (part.op == op) return part;
  }
  ADD_FAILURE() << "no part for " << op;
  return scaling.parts().front();
}

TEST(Scaling, SerialAndParallelPartsAreFoundAgain) {
  // 1 ms serial and 8 in parallel, in two nodes.
  const NodeTimes node = {.op = "conv", .bytes = 1e3, .seconds = {4.5e-3, 2.5e-3, 2.5e-3}};
  const Scaling scaling({{node, node}}, {9e-3, 5e-3, 5e-3}, 2, kCopyThatScales);
  const Scaling::Part& conv = PartOf(scaling, "conv");
  EXPECT_EQ(conv.nodes, 2);
  EXPECT_NEAR(conv.serial, 1e-3, 1e-9);
  EXPECT_NEAR(conv.parallel, 8e-3, 1e-9);
  EXPECT_NEAR(conv.Seconds(8), 2e-3, 1e-9);
  EXPECT_NEAR(scaling.Seconds(64), 1.125e-3, 1e-9);
  EXPECT_EQ(conv.LimitOn(4), Scaling::Limit::kThreads);
  EXPECT_EQ(conv.LimitOn(64), Scaling::Limit::kSerial);
}

TEST(Scaling, TimesThatFitNoLawStayAsMeasuredOnTwo) {
  const Scaling scaling(
      {{{.op = "slower", .seconds = {1e-3, 1.5e-3, 1.5e-3}}, {.op = "faster", .seconds = {4e-3, 1e-3, 1e-3}}}},
      {5e-3, 2.5e-3, 2.5e-3}, 2, kCopyThatScales);
  EXPECT_NEAR(PartOf(scaling, "slower").Seconds(2), 1.5e-3, 1e-9);
  EXPECT_NEAR(PartOf(scaling, "slower").Seconds(64), 1.5e-3, 1e-9);
  EXPECT_NEAR(PartOf(scaling, "faster").Seconds(2), 1e-3, 1e-9);
  EXPECT_NEAR(PartOf(scaling, "faster").Seconds(64), 2e-3 / 64, 1e-9);
}

TEST(Scaling, MemoryBoundsOnlyWhereItIsSeenToAndOnlyWhatGoesThroughIt) {
  const NodeTimes add = {.op = "add", .bytes = 24e6, .seconds = {4e-3, 2e-3, 2e-3}};         // 12 GB/s on two threads
  const NodeTimes cached = {.op = "relu", .bytes = 24e6, .seconds = {.4e-3, .2e-3, .2e-3}};  // ten times that
  const Scaling bound({{add, cached}}, {4.4e-3, 2.2e-3, 2.2e-3}, 2, kCopyThatDoesNot);
  EXPECT_TRUE(bound.bound_by_memory());
  EXPECT_NEAR(PartOf(bound, "add").Seconds(64), 2e-3, 1e-9);
  EXPECT_EQ(PartOf(bound, "add").LimitOn(64), Scaling::Limit::kMemory);
  EXPECT_LE(PartOf(bound, "relu").Seconds(64), .2e-3);
  const Scaling free({{add, cached}}, {4.4e-3, 2.2e-3, 2.2e-3}, 2, kCopyThatScales);
  EXPECT_FALSE(free.bound_by_memory());
  EXPECT_NEAR(PartOf(free, "add").Seconds(64), 4e-3 / 64, 1e-9);
}

TEST(Scaling, WhatAStepTakesBesideItsOpsIsAPart) {
  const Scaling scaling({{{.op = "add", .seconds = {4e-3, 2e-3, 2e-3}}}}, {5e-3, 3e-3, 3e-3}, 2, kCopyThatScales);
  const Scaling::Part& between = PartOf(scaling, Scaling::kBetween);
  EXPECT_NEAR(between.serial, 1e-3, 1e-9);
  EXPECT_EQ(&between, &scaling.parts().front()) << "the slowest on many threads comes first";
  EXPECT_THAT(scaling.Table(), ::testing::HasSubstr("of the step: serial parts ((between ops))"));
}

TEST(Scaling, MoreThanTwoThreadsAreShownBesideThePrediction) {
  const Scaling scaling({{{.op = "add", .seconds = {8e-3, 4e-3, 1.5e-3}}}}, {8e-3, 4e-3, 1.5e-3}, 8,
                        {.one = 10e9, .two = 20e9, .all = 70e9});
  EXPECT_THAT(scaling.Table(), ::testing::HasSubstr("on 8 threads predicted 1.000 ms, measured 1.500"));
}

}  // namespace
}  // namespace snug::core
