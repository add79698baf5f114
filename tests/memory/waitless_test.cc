// Placement for several streams on which nobody waits for bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "memory/partial_order.h"
#include "memory/place/placers.h"
#include "memory/share/parallel.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

// The schedule that waits for nothing but what tasks need of each other.
StreamSchedule DataOnly(const Tasks& tasks, const TaskOrder& order, int streams, std::mt19937& random) {
  StreamSchedule schedule{.streams = std::vector<std::vector<int32_t>>(static_cast<size_t>(streams))};
  for (const int32_t task : order) schedule.streams[random() % schedule.streams.size()].push_back(task);
  schedule.waits = PrecedenceOf(tasks);
  return schedule;
}

TEST(Waitless, NobodyWaitsForBytes) {
  std::mt19937 random(3);
  int64_t waitless = 0, ancestors = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const Tasks tasks = RandomTasks(random, 2 + static_cast<int32_t>(random() % 25));
    const TaskOrder order = PartialOrder::Create(tasks.size(), PrecedenceOf(tasks))->sequence();
    const StreamSchedule schedule = DataOnly(tasks, order, 1 + static_cast<int>(random() % 4), random);
    const absl::StatusOr<Placement> placed = PlaceWaitless(tasks, schedule.streams, {.work_limit = 20000});
    ASSERT_TRUE(placed.ok()) << placed.status().message();
    const absl::Status verified = VerifyUnderWaits(tasks, order, schedule, placed->plan);
    ASSERT_TRUE(verified.ok()) << verified.message();
    ASSERT_GE(placed->plan.arena_bytes, placed->report.lower_bound);
    waitless += placed->plan.arena_bytes;
    ancestors += ShareInParallel(tasks, order, "ancestors-only", {})->placement.plan.arena_bytes;
  }
  EXPECT_LT(waitless, ancestors);
}

// An input is there before the first task. Where nobody reads it, its bytes are still its own while that one runs.
TEST(Waitless, PlansKeepTheLifetimesOfAnOrder) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    Tasks tasks = RandomTasks(random, 2 + static_cast<int32_t>(random() % 12));
    for (uint32_t inputs = random() % 4; inputs > 0; --inputs) {
      TaskValue input{.name = "input", .size_bytes = static_cast<int64_t>(64 * (1 + random() % 12))};
      if (random() % 2 == 0) input.readers.push_back(static_cast<int32_t>(random() % tasks.names.size()));
      tasks.values.push_back(input);
    }
    const TaskOrder order = PartialOrder::Create(tasks.size(), PrecedenceOf(tasks))->sequence();
    const StreamSchedule schedule = DataOnly(tasks, order, 1 + static_cast<int>(random() % 4), random);
    const absl::StatusOr<Placement> placed = PlaceWaitless(tasks, schedule.streams, {.work_limit = 20000});
    ASSERT_TRUE(placed.ok()) << placed.status().message();
    const absl::Status verified = Verify(LifetimesOf(tasks, order), placed->plan);
    ASSERT_TRUE(verified.ok()) << verified.message();
  }
}

TEST(Waitless, OneStreamSharesAsOne) {
  // a -> b -> c in a row on one stream: two buffers are enough; on two streams without need of each other, they are
  // not.
  Tasks tasks;
  tasks.names = {"a", "b", "c", "d"};
  for (int32_t t = 0; t < 4; ++t) {
    tasks.values.push_back({.name = tasks.names[static_cast<size_t>(t)], .size_bytes = 64, .producer = t});
  }
  EXPECT_EQ(PlaceWaitless(tasks, {{0, 1, 2, 3}}, {})->plan.arena_bytes, 64);
  EXPECT_EQ(PlaceWaitless(tasks, {{0, 1}, {2, 3}}, {})->plan.arena_bytes, 128);
  EXPECT_EQ(PlaceWaitless(tasks, {{0}, {1}, {2}, {3}}, {})->plan.arena_bytes, 256);
}

}  // namespace
}  // namespace snug::core::memory
