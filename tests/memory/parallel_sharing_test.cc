// The memory note's sharing for tasks that may run at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "memory/share/parallel.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

using testing::HasSubstr;

ParallelSharing Share(const Tasks& tasks, const TaskOrder& order, absl::string_view name,
                      const PlannerOptions& options = {}) {
  absl::StatusOr<ParallelSharing> sharing = ShareInParallel(tasks, order, name, options);
  EXPECT_TRUE(sharing.ok()) << sharing.status().message();
  return sharing.ok() ? *std::move(sharing) : ParallelSharing{};
}

// The note's A[1] to A[8], from 0 here: two branches, 0-1-2-3-7 and 0-4-5-6-7.
Tasks TwoBranches() {
  Tasks tasks;
  for (int32_t t = 0; t < 8; ++t) {
    tasks.names.push_back("A" + std::to_string(t + 1));
    tasks.values.push_back({.name = tasks.names.back(), .size_bytes = 64, .producer = t});
  }
  const std::vector<Edge> reads = {{0, 1}, {1, 2}, {2, 3}, {3, 7}, {0, 4}, {4, 5}, {5, 6}, {6, 7}};
  for (const auto& [a, b] : reads) tasks.values[static_cast<size_t>(a)].readers.push_back(b);
  return tasks;
}

TEST(ParallelSharing, TheTwoPlansOfTheNote) {
  const Tasks tasks = TwoBranches();
  const TaskOrder order = {0, 1, 2, 4, 3, 5, 6, 7};
  const ParallelSharing implicit = Share(tasks, order, "implicit");
  EXPECT_EQ(implicit.placement.plan.offsets[4], implicit.placement.plan.offsets[1]);  // A5 lies on A2's bytes
  EXPECT_THAT(implicit.implicit_edges, testing::Contains(Edge(2, 4)));                // and waits for A2's reader, A3
  EXPECT_EQ(implicit.critical_path_alone, 5);
  EXPECT_GT(implicit.critical_path, 5);

  for (const char* name : {"colors-only", "ancestors-only"}) {
    const ParallelSharing safe = Share(tasks, order, name);
    EXPECT_NE(safe.placement.plan.offsets[4], safe.placement.plan.offsets[1]) << name;
    EXPECT_TRUE(safe.implicit_edges.empty()) << name;
    EXPECT_EQ(safe.critical_path, 5) << name;
    EXPECT_LT(safe.placement.plan.arena_bytes, 8 * 64) << name;
    EXPECT_GT(safe.placement.plan.arena_bytes, implicit.placement.plan.arena_bytes) << name;
  }
}

TEST(ParallelSharing, ColorsTheLongestPathsFirst) {
  Tasks tasks = TwoBranches();
  tasks.cost = {1, 1, 1, 1, 2, 2, 2, 1};  // the second branch is the longer one
  const TaskOrder order = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(ColorLongestPaths(tasks, order, 1), (std::vector<int32_t>{0, -1, -1, -1, 0, 0, 0, 0}));
  EXPECT_EQ(ColorLongestPaths(tasks, order, 2), (std::vector<int32_t>{0, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(ColorLongestPaths(tasks, order, 5), (std::vector<int32_t>{0, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(ParallelSharing, TasksWithoutAColorShareWithNobody) {
  const Tasks tasks = TwoBranches();
  const TaskOrder order = {0, 1, 2, 3, 4, 5, 6, 7};
  const int64_t one = Share(tasks, order, "colors-only", {.colors = 1}).placement.plan.arena_bytes;
  const int64_t two = Share(tasks, order, "colors-only", {.colors = 2}).placement.plan.arena_bytes;
  EXPECT_LT(two, one);
}

TEST(ParallelSharing, NoneIsAnotherByName) {
  std::mt19937 random(13);
  std::set<std::vector<std::pair<int64_t, std::vector<Edge>>>> seen;
  std::vector<std::vector<std::pair<int64_t, std::vector<Edge>>>> results(ParallelSharingNames().size());
  for (int round = 0; round < 50; ++round) {
    const Tasks tasks = RandomTasks(random, 20);
    for (size_t i = 0; i < results.size(); ++i) {
      const ParallelSharing sharing = Share(tasks, ProgramOrder(tasks), ParallelSharingNames()[i]);
      results[i].emplace_back(sharing.placement.plan.arena_bytes, sharing.implicit_edges);
    }
  }
  for (const auto& result : results) EXPECT_TRUE(seen.insert(result).second);
}

TEST(ParallelSharing, UnknownNamesAreRefused) {
  EXPECT_THAT(std::string(ShareInParallel({}, {}, "colours", {}).status().message()), HasSubstr("ancestors-only"));
  for (const absl::string_view name : ParallelSharingNames()) EXPECT_TRUE(ShareInParallel({}, {}, name, {}).ok());
}

// Every task on a stream of its own: only what the tasks and the implicit edges say is waited for.
StreamSchedule EveryoneAlone(const Tasks& tasks, const std::vector<Edge>& implicit) {
  StreamSchedule schedule{.waits = PrecedenceOf(tasks)};
  for (int32_t t = 0; t < tasks.size(); ++t) schedule.streams.push_back({t});
  schedule.waits.insert(schedule.waits.end(), implicit.begin(), implicit.end());
  return schedule;
}

TEST(ParallelSharing, RandomTasksAreSafeWithTheImplicitEdgesAndOnlyWithThem) {
  std::mt19937 random(12);
  int needed = 0;
  int slower = 0;
  int fell_back = 0;
  for (int round = 0; round < 400; ++round) {
    Tasks tasks = RandomTasks(random, 4 + static_cast<int>(random() % 20));
    for (TaskValue& value : tasks.values) value.fetched = random() % 8 == 0;
    tasks.values.push_back({.name = "given", .size_bytes = 128, .readers = {1}});
    tasks.values.push_back({.name = "state", .size_bytes = 128, .readers = {0}, .resident = true});
    const TaskOrder order = ProgramOrder(tasks);
    for (const absl::string_view name : ParallelSharingNames()) {
      SCOPED_TRACE(std::string(name) + " round " + std::to_string(round));
      const ParallelSharing sharing = Share(tasks, order, name, {.colors = 1 + round % 3});
      ASSERT_TRUE(Verify(LifetimesOf(tasks, order), sharing.placement.plan).ok());
      const absl::Status safe =
          VerifyUnderWaits(tasks, order, EveryoneAlone(tasks, sharing.implicit_edges), sharing.placement.plan);
      ASSERT_TRUE(safe.ok()) << safe.message();
      ASSERT_GE(sharing.placement.plan.arena_bytes, sharing.placement.report.lower_bound);
      ASSERT_GE(sharing.critical_path, sharing.critical_path_alone);
      if (name == "ancestors-only" || name == "colors-only") {
        ASSERT_TRUE(sharing.implicit_edges.empty());
        ASSERT_EQ(sharing.critical_path, sharing.critical_path_alone);
      }
      slower += sharing.critical_path > sharing.critical_path_alone;
      if (sharing.implicit_edges.empty()) continue;
      fell_back += name != "implicit";
      needed += !VerifyUnderWaits(tasks, order, EveryoneAlone(tasks, {}), sharing.placement.plan).ok();
    }
  }
  EXPECT_GT(needed, 200);
  EXPECT_GT(slower, 200);
  EXPECT_GT(fell_back, 100);
}

}  // namespace
}  // namespace snug::core::memory
