// The exact placer against an independent exhaustive search, on small random problems of every kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

bool Conflict(const Buffer& a, const Buffer& b) {
  for (int32_t t = std::max(a.first, b.first); t <= std::min(a.last, b.last); ++t) {
    if (LiveAt(a, t) && LiveAt(b, t)) return true;
  }
  return false;
}

// The least total over all sequences in which buffers are put down one after the other, each as low as the ones before
// it allow: an optimal plan, its buffers by offset, is one of these.
class BruteForce {
 public:
  explicit BruteForce(const Problem& problem) : problem_(problem), offsets_(problem.buffers.size(), -1) {
    for (const Buffer& b : problem.buffers) best_ += AlignUp(b.size_bytes, b.alignment) + b.alignment;
    Descend(0, 0, 0);
  }
  int64_t best() const { return best_; }

 private:
  void Descend(size_t placed, int64_t total, int64_t least) {
    if (total >= best_) return;
    if (placed == offsets_.size()) {
      best_ = total;
      return;
    }
    for (size_t i = 0; i < offsets_.size(); ++i) {
      if (offsets_[i] >= 0) continue;
      const Buffer& b = problem_.buffers[i];
      int64_t offset = 0;
      for (size_t j = 0; j < offsets_.size(); ++j) {
        if (offsets_[j] < 0 || !Conflict(b, problem_.buffers[j])) continue;
        offset = std::max(offset, offsets_[j] + problem_.buffers[j].size_bytes);
      }
      offset = AlignUp(offset, b.alignment);
      if (offset < least) continue;
      offsets_[i] = offset;
      Descend(placed + 1, std::max(total, offset + b.size_bytes), offset);
      offsets_[i] = -1;
    }
  }

  const Problem& problem_;
  std::vector<int64_t> offsets_;
  int64_t best_ = 0;
};

Problem SmallProblemOfAnyKind(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random() % limit); };
  const uint32_t count = 2 + random() % 6, times = 2 + random() % 8, sizes = 2 + random() % 8;
  const uint32_t kind = random() % 4;  // 1: gaps; 2: alignments that differ; 3: one alignment for all
  Problem problem;
  for (uint32_t i = 0; i < count; ++i) {
    Buffer b{.size_bytes = 1 + below(sizes), .alignment = 1, .first = below(times)};
    b.last = b.first + below(times);
    if (kind == 1 && b.last - b.first >= 2 && below(2) == 0) {
      const int32_t from = b.first + 1 + below(static_cast<uint32_t>(b.last - b.first - 1));
      b.gaps.push_back({from, from + below(static_cast<uint32_t>(b.last - from))});
    }
    if (kind == 2) b.alignment = 1 << below(3);
    if (kind == 3) b.alignment = 4;
    problem.buffers.push_back(b);
  }
  return problem;
}

// Sizes of millions of bytes without a common divisor: between the bound and the optimum lie millions of totals.
Problem SmallProblemOfLargeSizes(uint32_t seed) {
  Problem problem = SmallProblemOfAnyKind(seed);
  for (Buffer& b : problem.buffers) b.size_bytes = b.size_bytes * 1'000'003 - static_cast<int64_t>(++seed * 7919 % 50);
  return problem;
}

void ExpectOptimal(const Problem& problem, uint32_t seed) {
  const absl::StatusOr<Placement> placement = PlaceExact(problem, {});
  ASSERT_TRUE(placement.ok());
  ASSERT_TRUE(Verify(problem, placement->plan).ok()) << seed << ": " << Verify(problem, placement->plan);
  ASSERT_TRUE(placement->report.proven) << seed;
  ASSERT_EQ(placement->plan.arena_bytes, BruteForce(problem).best()) << seed;
  ASSERT_EQ(placement->report.lower_bound, placement->plan.arena_bytes) << seed;
}

TEST(PlaceExact, EqualsBruteForce) {
  for (uint32_t seed = 0; seed < 20000 && !HasFatalFailure(); ++seed) ExpectOptimal(SmallProblemOfAnyKind(seed), seed);
}

TEST(PlaceExact, EqualsBruteForceWithLargeSizes) {
  for (uint32_t seed = 0; seed < 5000 && !HasFatalFailure(); ++seed) {
    ExpectOptimal(SmallProblemOfLargeSizes(seed), seed);
  }
}

// Its load is 4 units, its optimum 5.
Problem ProblemFarAboveItsLoad(int64_t unit, int64_t alignment) {
  constexpr struct {
    int32_t first, last;
    int64_t units;
  } kBuffers[] = {{1, 6, 1}, {7, 7, 2}, {0, 3, 2}, {5, 5, 2}, {6, 7, 2},
                  {4, 6, 1}, {4, 4, 1}, {0, 0, 2}, {2, 4, 1}, {1, 1, 1}};
  Problem problem;
  for (const auto& b : kBuffers) {
    problem.buffers.push_back({.size_bytes = b.units * unit, .alignment = alignment, .first = b.first, .last = b.last});
  }
  return problem;
}

// Its load is 4 million bytes, its optimum 5: whatever is proven along the way, it must be found at once.
TEST(PlaceExact, AnOptimumFarAboveTheLoad) {
  constexpr struct {
    int32_t first, last;
    int64_t size;
  } kBuffers[] = {{1, 6, 999957}, {7, 7, 2000001}, {0, 3, 2000003}, {5, 5, 1999960}, {6, 7, 1999980},
                  {4, 6, 999975}, {4, 4, 999964},  {0, 0, 1999958}, {2, 4, 999995},  {1, 1, 999962}};
  Problem problem;
  for (const auto& b : kBuffers) {
    problem.buffers.push_back({.size_bytes = b.size, .alignment = 1, .first = b.first, .last = b.last});
  }
  ASSERT_LE(LowerBound(problem), 4'000'000);
  const absl::StatusOr<Placement> placement = PlaceExact(problem, {});
  ASSERT_TRUE(placement.ok());
  EXPECT_TRUE(placement->report.proven);
  EXPECT_EQ(placement->plan.arena_bytes, 4'999'907);
  EXPECT_LE(placement->report.work, 1'000'000);
}

// Once nothing fits into the capacity, what is found and proven is what is without one.
TEST(PlaceExact, ACapacityThatIsTooSmallHoldsNothingUp) {
  const Problem problem = ProblemFarAboveItsLoad(/*unit=*/1'000'000, /*alignment=*/1);
  for (const int64_t capacity : {3'000'000, 4'000'000, 4'000'001, 4'500'000}) {
    const absl::StatusOr<Placement> placement = PlaceExact(problem, {.capacity = capacity});
    ASSERT_TRUE(placement.ok());
    EXPECT_TRUE(placement->report.proven) << capacity;
    EXPECT_EQ(placement->plan.arena_bytes, 5'000'000) << capacity;
    EXPECT_LE(placement->report.work, 1'000'000) << capacity;
  }
}

TEST(PlaceExact, TheBoundIsNotAboveTheOptimumWhateverTheCapacity) {
  const Problem problem = ProblemFarAboveItsLoad(/*unit=*/1024, /*alignment=*/1024);
  for (const int64_t capacity : {4095, 4096, 4097, 4500, 5119, 5120, 5121}) {
    const absl::StatusOr<Placement> placement = PlaceExact(problem, {.capacity = capacity});
    ASSERT_TRUE(placement.ok());
    EXPECT_EQ(placement->plan.arena_bytes, 5120) << capacity;
    EXPECT_LE(placement->report.lower_bound, 5120) << capacity;
  }
}

TEST(CampaignPlaceExact, EqualsBruteForceAMillionTimes) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "set SNUG_CAMPAIGN to run it";
  for (uint32_t seed = 20000; seed < 1'020'000 && !HasFatalFailure(); ++seed) {
    ExpectOptimal(SmallProblemOfAnyKind(seed), seed);
  }
}

TEST(PlaceExact, SmallCases) {
  Problem problem{.buffers = {{.size_bytes = 1, .alignment = 1, .first = 0, .last = 0},
                              {.size_bytes = 1, .alignment = 1, .first = 0, .last = 1},
                              {.size_bytes = 2, .alignment = 1, .first = 2, .last = 2}}};
  EXPECT_EQ(PlaceExact(problem, {})->plan.arena_bytes, 2);
}

TEST(PlaceExact, ThreadsDoNotChangeThePlan) {
  std::mt19937 random(3);
  for (int repeat = 0; repeat < 5; ++repeat) {
    Problem problem;
    for (int i = 0; i < 60; ++i) {
      Buffer b{.size_bytes = 1 + static_cast<int64_t>(random() % 1000), .alignment = 1};
      b.first = static_cast<int32_t>(random() % 40);
      b.last = b.first + static_cast<int32_t>(random() % 20);
      problem.buffers.push_back(b);
    }
    const absl::StatusOr<Placement> one = PlaceExact(problem, {.work_limit = 20'000'000, .threads = 1});
    const absl::StatusOr<Placement> three = PlaceExact(problem, {.work_limit = 20'000'000, .threads = 3});
    ASSERT_TRUE(one.ok() && three.ok());
    EXPECT_EQ(one->plan.offsets, three->plan.offsets);
    EXPECT_EQ(one->report.work, three->report.work);
    EXPECT_EQ(one->report.lower_bound, three->report.lower_bound);
    std::shuffle(problem.buffers.begin(), problem.buffers.end(), random);
    EXPECT_EQ(PlaceExact(problem, {.work_limit = 20'000'000})->plan.arena_bytes, one->plan.arena_bytes);
  }
}

}  // namespace
}  // namespace snug::core::memory
