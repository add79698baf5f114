#include "memory/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "memory/share/blocks.h"

namespace snug::core::memory {
namespace {

using testing::HasSubstr;

Problem ThreeBuffers() {
  return {.buffers = {{.name = "a", .size_bytes = 64, .first = 0, .last = 1},
                      {.name = "b", .size_bytes = 128, .first = 1, .last = 2},
                      {.name = "c", .size_bytes = 64, .first = 2, .last = 3}}};
}

TEST(Verifier, AcceptsSharingAcrossTime) {
  EXPECT_TRUE(Verify(ThreeBuffers(), {.offsets = {0, 64, 0}, .arena_bytes = 192}).ok());
}

TEST(Verifier, NamesBothBuffersThatOverlap) {
  const absl::Status status = Verify(ThreeBuffers(), {.offsets = {0, 0, 128}, .arena_bytes = 192});
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"b\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"a\""));
}

TEST(Verifier, RejectsWhatLiesOutsideOrUnaligned) {
  EXPECT_FALSE(Verify(ThreeBuffers(), {.offsets = {0, 64, 0}, .arena_bytes = 128}).ok());
  EXPECT_FALSE(Verify(ThreeBuffers(), {.offsets = {0, 96, 0}, .arena_bytes = 256}).ok());
  EXPECT_FALSE(Verify(ThreeBuffers(), {.offsets = {0, -64, 0}, .arena_bytes = 256}).ok());
  EXPECT_FALSE(Verify(ThreeBuffers(), {.offsets = {0, 64}, .arena_bytes = 256}).ok());
}

bool OverlapByBruteForce(const Problem& problem, const Plan& plan) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Buffer& a = problem.buffers[i];
      const Buffer& b = problem.buffers[j];
      const bool in_time = a.first <= b.last && b.first <= a.last;
      const bool in_space =
          plan.offsets[i] < plan.offsets[j] + b.size_bytes && plan.offsets[j] < plan.offsets[i] + a.size_bytes;
      if (in_time && in_space && a.size_bytes > 0 && b.size_bytes > 0) return true;
    }
  }
  return false;
}

TEST(Verifier, AgreesWithBruteForceOnRandomPlans) {
  std::mt19937 random(1);
  int rejected = 0;
  for (int round = 0; round < 3000; ++round) {
    Problem problem;
    Plan plan{.arena_bytes = 64 * 64};
    for (int i = 0; i < 6; ++i) {
      const auto first = static_cast<int32_t>(random() % 8);
      problem.buffers.push_back({.name = "x",
                                 .size_bytes = static_cast<int64_t>(random() % 8) * 64,
                                 .first = first,
                                 .last = first + static_cast<int32_t>(random() % 4)});
      plan.offsets.push_back(static_cast<int64_t>(random() % 48) * 64);
    }
    const bool overlap = OverlapByBruteForce(problem, plan);
    rejected += overlap;
    ASSERT_EQ(Verify(problem, plan).ok(), !overlap) << "round " << round;
  }
  EXPECT_GT(rejected, 300);
  EXPECT_LT(rejected, 2700);
}

TEST(PlanNone, GivesEveryBufferItsOwnAlignedBytes) {
  const Problem problem = ThreeBuffers();
  const Plan plan = PlanNone(problem);
  EXPECT_TRUE(Verify(problem, plan).ok());
  EXPECT_EQ(plan.arena_bytes, 256);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 64, 192}));
}

}  // namespace
}  // namespace snug::core::memory
