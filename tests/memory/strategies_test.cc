#include "memory/strategies.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "memory/ilp/solver.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

using testing::HasSubstr;

// Each task writes one value and reads up to three earlier ones; some outputs may be written over an input.
Tasks TasksOverEqualInputs(uint32_t seed, int32_t n) {
  std::mt19937 random(seed);
  Tasks tasks;
  for (int32_t t = 0; t < n; ++t) {
    tasks.names.push_back(absl::StrCat("t", t));
    std::set<int32_t> inputs;
    for (int i = 0; t > 0 && i < 3; ++i) inputs.insert(static_cast<int32_t>(random() % static_cast<uint32_t>(t)));
    const int64_t size = 64 * static_cast<int64_t>(1 + random() % 8);
    for (const int32_t input : inputs) {
      TaskValue& value = tasks.values[static_cast<size_t>(input)];
      value.readers.push_back(t);
      if (value.size_bytes == size) tasks.in_place.push_back({t, input});
    }
    tasks.values.push_back({.name = absl::StrCat("v", t), .size_bytes = size, .producer = t});
  }
  tasks.values.back().fetched = true;
  return tasks;
}

TaskOrder Given(const Tasks& tasks) {
  TaskOrder order(tasks.names.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  return order;
}

class StrategiesTest : public testing::TestWithParam<std::string> {};

TEST_P(StrategiesTest, PlansRandomTasksAndPassesTheVerifier) {
  if (GetParam() == "olla" && IlpSolvers().empty()) GTEST_SKIP() << "no solver of integer linear programs";
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const Tasks tasks = TasksOverEqualInputs(seed, 5 + static_cast<int32_t>(seed) * 2);
    const TaskOrder given = Given(tasks);
    const absl::StatusOr<TaskPlan> plan = PlanTasks(tasks, given, GetParam(), {.work_limit = 1000});
    ASSERT_TRUE(plan.ok()) << "seed " << seed << ": " << plan.status().message();
    EXPECT_TRUE(CheckOrder(tasks, plan->order).ok()) << "seed " << seed;
    EXPECT_TRUE(Verify(plan->problem, plan->placement.plan).ok()) << "seed " << seed;
    EXPECT_GE(plan->placement.plan.arena_bytes, plan->placement.report.lower_bound) << "seed " << seed;
    EXPECT_TRUE(plan->ordered || plan->order == given) << "seed " << seed;
    const absl::StatusOr<TaskPlan> again = PlanTasks(tasks, given, GetParam(), {.work_limit = 1000});
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->order, plan->order) << "seed " << seed;
    EXPECT_EQ(again->placement.plan.offsets, plan->placement.plan.offsets) << "seed " << seed;
  }
}

TEST_P(StrategiesTest, SecondsOfOrdererAndPlacerAreCountedOnce) {
  if (GetParam() == "olla" && IlpSolvers().empty()) GTEST_SKIP() << "no solver of integer linear programs";
  const Tasks tasks = TasksOverEqualInputs(21, 14);
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<TaskPlan> plan = PlanTasks(tasks, Given(tasks), GetParam(), {.work_limit = 2000});
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const SearchReport& placing = plan->placement.report;
  EXPECT_LE(plan->ordering.seconds + placing.seconds, passed.count());
  for (const CurvePoint& point : placing.curve) EXPECT_LE(point.seconds, placing.seconds);
}

TEST_P(StrategiesTest, PlansNothing) {
  const absl::StatusOr<TaskPlan> plan = PlanTasks({}, {}, GetParam(), {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->placement.plan.arena_bytes, 0);
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Strategy& strategy : Strategies()) names.emplace_back(strategy.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Table, StrategiesTest, testing::ValuesIn(Names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Graphs of a hundred thousand tasks: what is done grows with the graph, never with the pairs in it.
TEST(CampaignStrategies, AHundredThousandTasks) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "set SNUG_CAMPAIGN to run it";
  constexpr int32_t kTasks = 100'000;
  for (const uint32_t reach : {1u, 50u, 3000u, 100'000u}) {
    std::mt19937 random(reach);
    Tasks tasks;
    for (int32_t t = 0; t < kTasks; ++t) {
      tasks.names.emplace_back();
      TaskValue value{.size_bytes = 64 * static_cast<int64_t>(1 + random() % 10'000), .producer = t};
      std::set<int32_t> readers;
      for (int i = 0; i < 2; ++i) readers.insert(t + 1 + static_cast<int32_t>(random() % reach));
      for (const int32_t reader : readers) {
        if (reader < kTasks) value.readers.push_back(reader);
      }
      for (const int32_t reader : value.readers) tasks.in_place.push_back({reader, t});
      tasks.values.push_back(std::move(value));
    }
    const absl::StatusOr<TaskPlan> plan = PlanTasks(tasks, Given(tasks), "best", {});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_GE(plan->placement.plan.arena_bytes, plan->placement.report.lower_bound);
    EXPECT_LE(plan->ordering.work + plan->placement.report.work, 300'000'000) << reach;
  }
}

TEST(Strategies, UnknownNamesGetTheNearestOne) {
  EXPECT_THAT(std::string(FindStrategy("nome").status().message()),
              HasSubstr("unknown memory strategy \"nome\"; did you mean \"none\"? There are: none"));
}

}  // namespace
}  // namespace snug::core::memory
