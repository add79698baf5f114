// Every placer's plan passes the independent verifier and is never below the bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "memory/place/list_placer.h"
#include "memory/place/placers.h"
#include "memory/place/progress.h"
#include "memory/problem.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

Problem Chain(int n) {
  Problem problem;
  for (int i = 0; i < n; ++i) {
    problem.buffers.push_back({.size_bytes = i + 1, .alignment = 1, .first = i, .last = i + 1});
  }
  return problem;
}

Problem ProblemWithGaps(int n, uint32_t seed, bool mixed_alignment) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
  Problem problem;
  for (int i = 0; i < n; ++i) {
    Buffer b{.size_bytes = below(1000), .alignment = mixed_alignment ? 1 << below(9) : 1, .first = below(n)};
    b.last = b.first + below(below(8) == 0 ? n : 10);
    if (b.last - b.first > 4 && below(3) == 0) b.gaps.push_back({b.first + 1 + below(2), b.last - 1 - below(2)});
    problem.buffers.push_back(b);
  }
  return problem;
}

TEST(Conflicts, AreThePairsThatAreLiveTogether) {
  std::vector<Problem> problems = {Chain(20)};
  std::mt19937 random(3);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    problems.push_back(ProblemWithGaps(60, seed, false));
    problems.push_back(RandomProblem(random, 60));
  }
  int64_t pairs = 0;
  for (const Problem& problem : problems) {
    std::vector<int64_t> offsets;
    for (const Instance& part : Decompose(problem, &offsets)) {
      const Conflicts conflicts = ConflictsOf(part);
      for (size_t i = 0; i < part.size(); ++i) {
        std::vector<int32_t> expected;
        for (size_t j = 0; j < part.size(); ++j) {
          const bool together = std::ranges::any_of(part.items[i].spans, [&](const Span& a) {
            return std::ranges::any_of(part.items[j].spans,
                                       [&](const Span& b) { return a.first <= b.last && b.first <= a.last; });
          });
          if (i != j && together) expected.push_back(static_cast<int32_t>(j));
        }
        const auto item = static_cast<int32_t>(i);
        EXPECT_EQ(std::vector<int32_t>(conflicts.First(item), conflicts.Last(item)), expected);
        pairs += static_cast<int64_t>(expected.size());
      }
    }
  }
  EXPECT_GT(pairs, 1000);
}

TEST(PlaceOffset, Chains) {
  for (const auto& [n, total] : {std::pair(5, 9), std::pair(100, 199)}) {
    const absl::StatusOr<Placement> placement = PlaceOffset(Chain(n), {});
    ASSERT_TRUE(placement.ok());
    EXPECT_EQ(placement->plan.arena_bytes, total);
    EXPECT_TRUE(placement->report.proven);
  }
}

TEST(PlaceOffset, RandomPlansAreLegalAndAboveTheBound) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Problem problem = ProblemWithGaps(10 + static_cast<int>(seed % 90), seed, seed % 2 == 0);
    const absl::StatusOr<Placement> placement = PlaceOffset(problem, {});
    ASSERT_TRUE(placement.ok());
    EXPECT_TRUE(Verify(problem, placement->plan).ok()) << Verify(problem, placement->plan);
    EXPECT_GE(placement->plan.arena_bytes, LowerBound(problem)) << seed;
    EXPECT_EQ(placement->report.curve.back().total, placement->plan.arena_bytes) << seed;
  }
}

TEST(PlaceOffset, ThreadsDoNotChangeThePlan) {
  const Problem problem = ProblemWithGaps(200, 7, true);
  const absl::StatusOr<Placement> one = PlaceOffset(problem, {.threads = 1});
  const absl::StatusOr<Placement> three = PlaceOffset(problem, {.threads = 3});
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(one->plan.offsets, three->plan.offsets);
  EXPECT_EQ(one->report.work, three->report.work);
}

TEST(PlaceOffset, TheSequenceOfBuffersDoesNotMatter) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Problem problem = ProblemWithGaps(60, seed, true);
    const absl::StatusOr<Placement> before = PlaceOffset(problem, {});
    std::shuffle(problem.buffers.begin(), problem.buffers.end(), std::mt19937(seed));
    const absl::StatusOr<Placement> after = PlaceOffset(problem, {});
    ASSERT_TRUE(before.ok() && after.ok());
    EXPECT_EQ(before->plan.arena_bytes, after->plan.arena_bytes) << seed;
  }
}

TEST(PlaceOffset, FixedBuffersStayAndOthersGoAround) {
  Problem problem;
  problem.buffers = {{.size_bytes = 10, .alignment = 1, .first = 0, .last = 3, .fixed_offset = 10},
                     {.size_bytes = 10, .alignment = 1, .first = 1, .last = 4},
                     {.size_bytes = 5, .alignment = 1, .first = 0, .last = 0}};
  const absl::StatusOr<Placement> placement = PlaceOffset(problem, {});
  ASSERT_TRUE(placement.ok());
  EXPECT_TRUE(Verify(problem, placement->plan).ok());
  EXPECT_EQ(placement->plan.arena_bytes, 20);
}

TEST(PlaceOffset, NothingAndEmptyBuffers) {
  EXPECT_EQ(PlaceOffset({}, {})->plan.arena_bytes, 0);
  Problem problem;
  problem.buffers = {{.size_bytes = 0, .first = 0, .last = 3}};
  EXPECT_EQ(PlaceOffset(problem, {})->plan.arena_bytes, 0);
  EXPECT_TRUE(PlaceOffset(problem, {})->report.proven);
}

TEST(Skyline, RandomPlansAreLegal) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Problem problem = ProblemWithGaps(100, seed, seed % 2 == 0);
    const PlannerOptions options;
    Progress progress(problem, options);
    for (size_t part = 0; part < progress.parts().size(); ++part) {
      std::vector<int64_t> offsets;
      const int64_t total = PlaceOnSkyline(progress.parts()[part], static_cast<int>(seed % kSkylineRules), &offsets);
      progress.Offer(part, total, offsets);
    }
    const Placement placement = progress.Finish();
    EXPECT_TRUE(Verify(problem, placement.plan).ok()) << Verify(problem, placement.plan);
  }
}

}  // namespace
}  // namespace snug::core::memory
