// Planning of large graphs: its time grows about as the graph does, its plans stay near the bound, and are the same
// each time. bench/planning_bench.cc says where the time goes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "memory/order/min_cut.h"
#include "memory/order/task_net.h"
#include "memory/strategies.h"
#include "tests/memory/large_tasks.h"

namespace snug::core::memory {
namespace {

constexpr double kMostGap = 0.005;

struct Planned {
  TaskPlan plan;
  double seconds = 0;  // of the processor, so that other programs do not count
};

Planned PlanOf(const Tasks& tasks) {
  TaskOrder given;
  for (int32_t t = 0; t < tasks.size(); ++t) given.push_back(t);
  Planned planned;
  const std::clock_t begin = std::clock();
  absl::StatusOr<TaskPlan> plan = PlanTasks(tasks, given, kDefaultStrategy, {});
  planned.seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (plan.ok()) planned.plan = *std::move(plan);
  return planned;
}

double GapOf(const TaskPlan& plan) {
  const auto bound = static_cast<double>(plan.placement.report.lower_bound);
  return static_cast<double>(plan.placement.plan.arena_bytes) / bound - 1;
}

// The kinds that networks are like.
class PlanningAtScale : public testing::TestWithParam<const char*> {};

TEST_P(PlanningAtScale, TakesTimeAboutAsTheGraphGrows) {
  const Tasks small = LargeTasks(GetParam(), 2500), large = LargeTasks(GetParam(), 10'000);
  Planned of_small = PlanOf(small);
  of_small.seconds = std::min(of_small.seconds, PlanOf(small).seconds);
  Planned of_large = PlanOf(large);
  // Four times the tasks: by the square it would be sixteen times the seconds. Of what takes next to nothing, the
  // clock's own steps must not count.
  const double most = 10 * std::max(of_small.seconds, 0.01);
  if (of_large.seconds > most) of_large.seconds = std::min(of_large.seconds, PlanOf(large).seconds);
  EXPECT_LT(of_large.seconds, most) << of_small.seconds << " s for " << small.size() << " tasks";
  EXPECT_LT(GapOf(of_small.plan), kMostGap);
  EXPECT_LT(GapOf(of_large.plan), kMostGap);
}

TEST_P(PlanningAtScale, GivesTheSamePlanEachTime) {
  const Tasks tasks = LargeTasks(GetParam(), 5000);
  const TaskPlan one = PlanOf(tasks).plan, other = PlanOf(tasks).plan;
  EXPECT_EQ(one.order, other.order);
  EXPECT_EQ(one.placement.plan.offsets, other.placement.plan.offsets);
}

TEST_P(PlanningAtScale, CampaignAHundredThousandTasksTakeSeconds) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "SNUG_CAMPAIGN is not set";
  const Tasks tasks = LargeTasks(GetParam(), 110'000);
  ASSERT_GT(tasks.size(), 99'000);
  const Planned planned = PlanOf(tasks);
  EXPECT_LT(planned.seconds, 5 * 3);  // less than 5 s in a release build; sanitizers take longer
  EXPECT_LT(GapOf(planned.plan), kMostGap);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlanningAtScale, testing::Values("chain", "branches", "rounds", "towers"),
                         [](const auto& info) { return info.param; });

// Cuts of long chains: as many steps as there are arcs, a few times over, not once for each length of a way.
TEST(MinCutAtScale, TakesStepsAboutAsTheGraphGrows) {
  const auto work_of = [](int tasks) {
    const TaskNet net(LargeTasks("towers", tasks));
    MinCut cut(net);
    const int32_t middle = net.size / 2;
    cut.Solve(net.before[middle], {&middle, 1});
    EXPECT_TRUE(cut.complete());
    return cut.work();
  };
  const int64_t small = work_of(2000), large = work_of(20'000);
  EXPECT_LT(large, 25 * small) << small;
}

}  // namespace
}  // namespace snug::core::memory
