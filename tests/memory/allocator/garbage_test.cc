#include "memory/allocator/garbage.h"

#include <absl/status/status.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace snug::core::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMB = 1'000'000;

std::vector<bool> Collected(double fraction, const std::vector<int64_t>& bytes) {
  const GarbageCollector collector({.gc_fraction = fraction}, bytes);
  std::vector<bool> result;
  for (size_t i = 0; i < bytes.size(); ++i) result.push_back(collector.Collects(static_cast<int32_t>(i)));
  return result;
}

TEST(AllocatorGarbage, ThresholdZeroFreesEachValueAsItDies) {
  GarbageCollector collector({}, {10, 20, 30});
  EXPECT_THAT(collector.Died(1), ElementsAre(1));
  EXPECT_THAT(collector.Died(0), ElementsAre(0));
  EXPECT_THAT(collector.Died(2), ElementsAre(2));
  EXPECT_THAT(collector.EndStep(), IsEmpty());
}

TEST(AllocatorGarbage, BelowZeroNothingIsFreedBeforeTheEndOfTheStep) {
  GarbageCollector collector({.gc_threshold_gb = -1}, {10, 20, 30});
  EXPECT_THAT(collector.Died(1), IsEmpty());
  EXPECT_THAT(collector.Died(0), IsEmpty());
  EXPECT_THAT(collector.EndStep(), ElementsAre(1, 0));
  EXPECT_THAT(collector.EndStep(), IsEmpty());
}

TEST(AllocatorGarbage, AThresholdCollectsThatMuchAndThenFreesAll) {
  GarbageCollector collector({.gc_threshold_gb = 0.1}, {60 * kMB, 39 * kMB, 1 * kMB, 99 * kMB});
  EXPECT_THAT(collector.Died(0), IsEmpty());
  EXPECT_THAT(collector.Died(1), IsEmpty());
  EXPECT_EQ(collector.dead_bytes(), 99 * kMB);
  EXPECT_THAT(collector.Died(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(collector.dead_bytes(), 0);
  EXPECT_THAT(collector.Died(3), IsEmpty());
  EXPECT_THAT(collector.EndStep(), ElementsAre(3));
}

TEST(AllocatorGarbage, TheFractionIsMadeUpOfTheLargestValues) {
  EXPECT_THAT(Collected(0, {10, 40, 20, 30}), ElementsAre(false, false, false, false));
  EXPECT_THAT(Collected(0.4, {10, 40, 20, 30}), ElementsAre(false, true, false, false));
  EXPECT_THAT(Collected(0.41, {10, 40, 20, 30}), ElementsAre(false, true, false, true));
  EXPECT_THAT(Collected(0.9, {10, 40, 20, 30}), ElementsAre(false, true, true, true));
  EXPECT_THAT(Collected(1, {10, 40, 20, 30, 0}), ElementsAre(true, true, true, true, true));
}

TEST(AllocatorGarbage, OfEqualValuesTheFirstAreTaken) {
  EXPECT_THAT(Collected(0.5, {10, 10, 10, 10}), ElementsAre(true, true, false, false));
}

TEST(AllocatorGarbage, WhatIsNotCollectedLivesToTheEndOfTheStep) {
  GarbageCollector collector({.gc_fraction = 0.4}, {10, 40, 20, 30});
  EXPECT_THAT(collector.Died(0), IsEmpty());
  EXPECT_THAT(collector.Died(1), ElementsAre(1));
  EXPECT_THAT(collector.Died(3), IsEmpty());
  EXPECT_THAT(collector.EndStep(), ElementsAre(0, 3));
}

TEST(AllocatorGarbage, WrongOptionsAreNamed) {
  EXPECT_TRUE(Validate(GarbageOptions{}).ok());
  EXPECT_TRUE(Validate(GarbageOptions{.gc_threshold_gb = -1}).ok());
  EXPECT_EQ(Validate(GarbageOptions{.gc_fraction = 1.5}),
            absl::InvalidArgumentError("option \"gc_fraction\": expected a share from 0 to 1, found 1.5"));
  EXPECT_EQ(Validate(GarbageOptions{.gc_threshold_gb = 2e6}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace snug::core::memory
