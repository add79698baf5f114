#include "memory/order/in_place_tasks.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "memory/in_place.h"
#include "memory/place/placers.h"

namespace snug::core::memory {
namespace {

Tasks TasksOfTwoSizes(uint32_t seed, int32_t n) {
  std::mt19937 random(seed);
  Tasks tasks;
  for (int32_t t = 0; t < n; ++t) {
    tasks.names.push_back(absl::StrCat("t", t));
    std::set<int32_t> inputs;
    for (int i = 0; t > 0 && i < 2; ++i) inputs.insert(static_cast<int32_t>(random() % static_cast<uint32_t>(t)));
    const int64_t size = 64 * static_cast<int64_t>(1 + random() % 2);
    for (const int32_t input : inputs) {
      TaskValue& value = tasks.values[static_cast<size_t>(input)];
      value.readers.push_back(t);
      if (random() % 3 != 0) tasks.in_place.push_back({t, input});
    }
    tasks.values.push_back({.name = absl::StrCat("v", t), .size_bytes = size, .producer = t});
  }
  return tasks;
}

template <class Visit>
void ForEachOrder(const Tasks& tasks, const Visit& visit) {
  TaskOrder order(tasks.names.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    if (CheckOrder(tasks, order).ok()) visit(order);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(InPlaceTasks, BoundTheArenaOfEveryOrderFromBelowAndGiveLegalOrders) {
  int in_place_helped = 0;
  int tight = 0;
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    const Tasks tasks = TasksOfTwoSizes(seed, 6);
    const absl::StatusOr<InPlaceTasks> plain = WithoutInPlace(tasks);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    ASSERT_TRUE(CheckTasks(plain->tasks).ok()) << "seed " << seed;
    if (plain->tasks.size() > 8) continue;  // too many orders

    int64_t least_peak = std::numeric_limits<int64_t>::max();
    ForEachOrder(plain->tasks, [&](const TaskOrder& order) {
      least_peak = std::min(least_peak, PeakOf(plain->tasks, order));
      EXPECT_TRUE(CheckOrder(tasks, plain->OriginalOrder(order)).ok()) << "seed " << seed;
    });
    int64_t least_arena = std::numeric_limits<int64_t>::max();
    int64_t least_old_peak = std::numeric_limits<int64_t>::max();
    ForEachOrder(tasks, [&](const TaskOrder& order) {
      const absl::StatusOr<Placement> placement = PlaceFolded(LifetimesOf(tasks, order), {}, PlaceOffset);
      ASSERT_TRUE(placement.ok());
      least_arena = std::min(least_arena, placement->plan.arena_bytes);
      least_old_peak = std::min(least_old_peak, PeakOf(tasks, order));
    });
    EXPECT_LE(least_peak, least_arena) << "seed " << seed;
    in_place_helped += least_arena < least_old_peak;
    tight += least_peak == least_arena;
  }
  EXPECT_GT(in_place_helped, 20);  // or else little is shown
  EXPECT_GT(tight, 50);
}

// a -> b -> c, each over the one before: one buffer.
TEST(InPlaceTasks, AChainIsOneValue) {
  Tasks tasks{.names = {"a", "b", "c"}};
  tasks.values = {{.name = "a", .size_bytes = 64, .producer = 0, .readers = {1}},
                  {.name = "b", .size_bytes = 64, .producer = 1, .readers = {2}},
                  {.name = "c", .size_bytes = 64, .producer = 2, .fetched = true}};
  tasks.in_place = {{1, 0}, {2, 1}};
  const absl::StatusOr<InPlaceTasks> plain = WithoutInPlace(tasks);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->tasks.size(), 3);
  EXPECT_EQ(PeakOf(plain->tasks, {0, 1, 2}), 64);
  EXPECT_TRUE(plain->tasks.values[0].fetched);
}

// b may lie on a only where it runs after the other reader.
TEST(InPlaceTasks, WhatDependsOnTheOrderIsCutInTwo) {
  Tasks tasks{.names = {"a", "b", "other"}};
  tasks.values = {{.name = "a", .size_bytes = 64, .producer = 0, .readers = {1, 2}},
                  {.name = "b", .size_bytes = 64, .producer = 1, .fetched = true}};
  tasks.in_place = {{1, 0}};
  const absl::StatusOr<InPlaceTasks> plain = WithoutInPlace(tasks);
  ASSERT_TRUE(plain.ok());
  ASSERT_EQ(plain->tasks.size(), 4);
  EXPECT_EQ(PeakOf(plain->tasks, {0, 1, 3, 2}), 128);
  EXPECT_EQ(PeakOf(plain->tasks, {0, 2, 1, 3}), 64);
  EXPECT_EQ(plain->OriginalOrder({0, 2, 1, 3}), (TaskOrder{0, 2, 1}));
}

// So many that what follows what is not known of every pair: each value is read by the next task and by the one that
// writes over it, which comes right after.
TEST(InPlaceTasks, LongChainsAreOneValueToo) {
  constexpr int32_t kTasks = 20'000;
  Tasks tasks;
  for (int32_t t = 0; t < kTasks; ++t) {
    tasks.names.push_back(absl::StrCat("t", t));
    TaskValue value{.name = absl::StrCat("v", t), .size_bytes = 64, .producer = t};
    for (int32_t reader = t + 1; reader <= std::min(t + 2, kTasks - 1); ++reader) value.readers.push_back(reader);
    tasks.values.push_back(std::move(value));
    if (t >= 2) tasks.in_place.push_back({t, t - 2});
  }
  const absl::StatusOr<InPlaceTasks> plain = WithoutInPlace(tasks);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->tasks.size(), kTasks);
  TaskOrder order(static_cast<size_t>(kTasks));
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(PeakOf(plain->tasks, order), 2 * 64);
}

}  // namespace
}  // namespace snug::core::memory
