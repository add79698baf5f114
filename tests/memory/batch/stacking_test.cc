#include "memory/batch/stacking.h"

#include <gtest/gtest.h>

#include <string>

#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

std::vector<int64_t> SizesOf(const Problem& problem) {
  std::vector<int64_t> sizes;
  for (const Buffer& buffer : problem.buffers) sizes.push_back(buffer.size_bytes);
  return sizes;
}

Problem WithSizes(Problem problem, const std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) problem.buffers[i].size_bytes = sizes[i];
  return problem;
}

Placement PlacedByDefault(const Problem& problem) {
  absl::StatusOr<Placement> placement = PlaceProblem(problem, kDefaultStrategy, {.work_limit = 20'000});
  EXPECT_TRUE(placement.ok()) << placement.status().message();
  return *std::move(placement);
}

// Three buffers on each other, and one beside them that rests on the lowest.
TEST(Stacking, EachBufferLiesAsLowAsThoseBeneathItAllow) {
  const Problem problem{.buffers = {{.name = "floor", .size_bytes = 64, .first = 0, .last = 9},
                                    {.name = "low", .size_bytes = 64, .first = 0, .last = 4},
                                    {.name = "high", .size_bytes = 64, .first = 2, .last = 4},
                                    {.name = "beside", .size_bytes = 64, .first = 5, .last = 9}}};
  const absl::StatusOr<Stacking> stacking = Stacking::Of(problem, {.offsets = {0, 64, 128, 256}, .arena_bytes = 320});
  ASSERT_TRUE(stacking.ok()) << stacking.status().message();
  // What lies higher than it must comes down.
  EXPECT_EQ(stacking->PlanFor({64, 64, 64, 64}).offsets, (std::vector<int64_t>{0, 64, 128, 64}));
  EXPECT_EQ(stacking->PlanFor({64, 64, 64, 64}).arena_bytes, 192);
  // Sizes are rounded up to the alignment, but for what lies on top; what has no bytes holds nothing up.
  EXPECT_EQ(stacking->PlanFor({1, 65, 7, 0}).offsets, (std::vector<int64_t>{0, 64, 192, 64}));
  EXPECT_EQ(stacking->PlanFor({1, 65, 7, 0}).arena_bytes, 199);
  EXPECT_EQ(stacking->PlanFor({0, 0, 0, 0}).arena_bytes, 0);
  EXPECT_EQ(stacking->PlanFor({64, 0, 64, 64}).offsets, (std::vector<int64_t>{0, 64, 64, 64}));
}

// A buffer that comes between two for a while keeps them apart no longer than it lives.
TEST(Stacking, NeighboursAreFoundWhenWhatLayBetweenThemDies) {
  const Problem problem{.buffers = {{.name = "lower", .size_bytes = 64, .first = 0, .last = 9},
                                    {.name = "between", .size_bytes = 64, .first = 0, .last = 3},
                                    {.name = "upper", .size_bytes = 64, .first = 3, .last = 9}}};
  const absl::StatusOr<Stacking> stacking = Stacking::Of(problem, {.offsets = {0, 64, 128}, .arena_bytes = 192});
  ASSERT_TRUE(stacking.ok());
  const std::vector<std::vector<int64_t>> many = {{640, 0, 64}, {64, 640, 64}, {640, 64, 6400}};
  for (const std::vector<int64_t>& sizes : many) {
    EXPECT_TRUE(Verify(WithSizes(problem, sizes), stacking->PlanFor(sizes)).ok());
  }
}

TEST(Stacking, WhatIsWrittenInPlaceStaysThere) {
  const Problem problem{.buffers = {{.name = "under", .size_bytes = 64, .first = 0, .last = 9},
                                    {.name = "x", .size_bytes = 128, .first = 0, .last = 1},
                                    {.name = "y", .size_bytes = 64, .first = 1, .last = 9},
                                    {.name = "on x", .size_bytes = 64, .first = 0, .last = 1},
                                    {.name = "on y", .size_bytes = 64, .first = 2, .last = 9}},
                        .in_place = {{2, 1}}};
  const absl::StatusOr<Stacking> stacking =
      Stacking::Of(problem, {.offsets = {0, 64, 64, 192, 128}, .arena_bytes = 256});
  ASSERT_TRUE(stacking.ok()) << stacking.status().message();
  const Plan plan = stacking->PlanFor({256, 640, 320, 64, 64});
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 256, 256, 896, 576}));
  EXPECT_EQ(plan.arena_bytes, 960);
}

TEST(Stacking, RefusesWhatItCannotStack) {
  Problem problem{.buffers = {{.name = "a", .size_bytes = 64}, {.name = "b", .size_bytes = 64}}};
  const Plan plan{.offsets = {0, 64}, .arena_bytes = 128};
  ASSERT_TRUE(Stacking::Of(problem, plan).ok());
  const auto error = [&](const Problem& of, const Plan& by) {
    return std::string(Stacking::Of(of, by).status().message());
  };
  EXPECT_NE(error(problem, {.offsets = {0, 0}, .arena_bytes = 128}).find("overlap"), std::string::npos);
  EXPECT_NE(error(problem, {.offsets = {0}, .arena_bytes = 128}).find("expected 2"), std::string::npos);
  problem.buffers[1].fixed_offset = 64;
  EXPECT_NE(error(problem, plan).find("\"b\": expected at least a byte and no fixed offset"), std::string::npos);
  problem.buffers[1] = {.name = "b", .size_bytes = 0};
  EXPECT_NE(error(problem, plan).find("found 0 bytes"), std::string::npos);
}

TEST(Stacking, OfRandomProblemsIsLegalForAnySizesAndNeverHigherForItsOwn) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return static_cast<int64_t>(random() % static_cast<uint32_t>(limit)); };
  int in_place = 0;
  for (int round = 0; round < 400; ++round) {
    Problem problem = RandomProblem(random, 4 + static_cast<int>(below(30)));
    for (Buffer& buffer : problem.buffers) {
      if (buffer.last - buffer.first >= 4 && below(3) == 0) {
        buffer.gaps.push_back({buffer.first + 1, buffer.first + 2});
      }
      if (below(4) == 0) buffer.alignment = 256;
    }
    const Placement placement = PlacedByDefault(problem);
    const absl::StatusOr<Stacking> stacking = Stacking::Of(problem, placement.plan);
    ASSERT_TRUE(stacking.ok()) << stacking.status().message();
    const Plan again = stacking->PlanFor(SizesOf(problem));
    ASSERT_TRUE(Verify(problem, again).ok()) << Verify(problem, again).message();
    ASSERT_LE(again.arena_bytes, placement.plan.arena_bytes);
    for (int trial = 0; trial < 8; ++trial) {
      std::vector<int64_t> sizes;
      for (size_t i = 0; i < problem.buffers.size(); ++i) sizes.push_back(below(3) == 0 ? 0 : below(5000));
      // What may be written in place may not grow beyond what it is written over.
      for (const InPlace& pair : problem.in_place) {
        int64_t& output = sizes[static_cast<size_t>(pair.output)];
        output = std::min(output, sizes[static_cast<size_t>(pair.input)]);
      }
      for (const InPlace& pair : problem.in_place) {
        const auto output = static_cast<size_t>(pair.output), input = static_cast<size_t>(pair.input);
        in_place += sizes[output] > 0 && placement.plan.offsets[output] == placement.plan.offsets[input];
      }
      const Problem other = WithSizes(problem, sizes);
      const Plan plan = stacking->PlanFor(sizes);
      ASSERT_TRUE(Verify(other, plan).ok()) << "round " << round << ": " << Verify(other, plan).message();
      ASSERT_GE(plan.arena_bytes, LowerBound(other));
    }
  }
  EXPECT_GT(in_place, 100);
}

}  // namespace
}  // namespace snug::core::memory
