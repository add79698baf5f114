// Local search over lists: never worse than where it begins, better where lists leave room, the same for any threads.
#include <gtest/gtest.h>

#include <random>

#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

Problem UniformProblem(uint32_t seed, int buffers) {
  std::mt19937 random(seed);
  Problem problem;
  for (int i = 0; i < buffers; ++i) {
    Buffer b{.size_bytes = 1 + static_cast<int64_t>(random() % 100'000), .alignment = 64};
    b.first = static_cast<int32_t>(random() % 200);
    b.last = b.first + static_cast<int32_t>(random() % 60);
    problem.buffers.push_back(b);
  }
  return problem;
}

Placement Moved(const Problem& problem, int64_t work, const PlannerOptions& options) {
  Progress progress(problem, options);
  ImproveByLists(options, &progress);
  ImproveByMoves(options, work, &progress);
  return progress.Finish();
}

TEST(PlaceMoves, ImproveWhatListsFind) {
  int better = 0;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    const Problem problem = UniformProblem(seed, 120);
    const absl::StatusOr<Placement> lists = PlaceOffset(problem, {});
    ASSERT_TRUE(lists.ok());
    const Placement moved = Moved(problem, 1'000'000, {});
    ASSERT_TRUE(Verify(problem, moved.plan).ok());
    ASSERT_GE(moved.plan.arena_bytes, LowerBound(problem));
    ASSERT_LE(moved.plan.arena_bytes, lists->plan.arena_bytes);
    better += moved.plan.arena_bytes < lists->plan.arena_bytes ? 1 : 0;
  }
  EXPECT_GE(better, 7);
}

TEST(PlaceMoves, DoNotDependOnThreads) {
  const Problem problem = UniformProblem(7, 150);
  const Placement one = Moved(problem, 1'000'000, {.threads = 1});
  const Placement four = Moved(problem, 1'000'000, {.threads = 4});
  EXPECT_EQ(one.plan.offsets, four.plan.offsets);
  EXPECT_EQ(one.report.work, four.report.work);
}

TEST(PlaceMoves, EndWhereEveryOffsetIsFixed) {
  Problem problem;
  for (int i = 0; i < 3; ++i) {
    problem.buffers.push_back(
        {.size_bytes = 64, .alignment = 64, .first = 0, .last = 1, .fixed_offset = 128 * static_cast<int64_t>(i)});
  }
  EXPECT_EQ(Moved(problem, 10'000, {}).plan.arena_bytes, 320);
}

}  // namespace
}  // namespace snug::core::memory
