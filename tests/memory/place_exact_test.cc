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

void ExpectOptimal(uint32_t seed) {
  const Problem problem = SmallProblemOfAnyKind(seed);
  const absl::StatusOr<Placement> placement = PlaceExact(problem, {});
  ASSERT_TRUE(placement.ok());
  ASSERT_TRUE(Verify(problem, placement->plan).ok()) << seed << ": " << Verify(problem, placement->plan);
  ASSERT_TRUE(placement->report.proven) << seed;
  ASSERT_EQ(placement->plan.arena_bytes, BruteForce(problem).best()) << seed;
  ASSERT_EQ(placement->report.lower_bound, placement->plan.arena_bytes) << seed;
}

TEST(PlaceExact, EqualsBruteForce) {
  for (uint32_t seed = 0; seed < 20000 && !HasFatalFailure(); ++seed) ExpectOptimal(seed);
}

TEST(CampaignPlaceExact, EqualsBruteForceAMillionTimes) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "set SNUG_CAMPAIGN to run it";
  for (uint32_t seed = 20000; seed < 1'020'000 && !HasFatalFailure(); ++seed) ExpectOptimal(seed);
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
