// Every strategy of the table on every public instance, as `snug place` and `snug order` meet them: what comes out is
// legal, no smaller than the bound that is printed beside it, and no larger than what cheaper strategies reach.
//
// Normally the smallest of each folder with little work; all of them, with the work that is each strategy's own choice,
// in the campaign.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"
#include "memory/ilp/solver.h"
#include "memory/order/task_net.h"
#include "memory/partial_plan.h"
#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tests/memory/shared_data.h"
#include "tests/testing/sanitizers.h"

namespace snug::core::memory {
namespace {

struct PublicInstance {
  std::string name;
  size_t size = 0;  // buffers or values
  // One of these: buffers with lifetimes, tasks to be ordered, or buffers under a partial order.
  std::optional<Problem> problem;
  std::optional<Tasks> tasks;
  std::optional<PartialProblem> partial;
};

PublicInstance ReadInstance(const std::string& path) {
  PublicInstance instance{.name = std::filesystem::path(path).filename().string()};
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return instance;
  if (absl::EndsWith(path, ".csv")) {
    const absl::StatusOr<Problem> problem = ParseCsv(*text, path);
    EXPECT_TRUE(problem.ok()) << problem.status();
    instance.problem = problem.value_or(Problem());
    instance.size = instance.problem->buffers.size();
  } else if (IsNnc(*text)) {
    const absl::StatusOr<NncFile> file = ParseNnc(*text, path);
    EXPECT_TRUE(file.ok()) << file.status();
    instance.partial = file.ok() ? file->problem : PartialProblem();
    instance.size = instance.partial->buffers.size();
  } else {
    const absl::StatusOr<GraphFile> file = ParseGraph(path, *text);
    EXPECT_TRUE(file.ok()) << file.status();
    instance.tasks = file.ok() ? file->tasks : Tasks();
    instance.size = instance.tasks->values.size();
  }
  return instance;
}

// The instances of a folder, the smallest first.
std::vector<PublicInstance> InstancesIn(const std::string& folder) {
  std::vector<PublicInstance> instances;
  for (const std::string& path : FilesIn(SharedData(folder))) {
    if (absl::EndsWith(path, ".csv") || absl::EndsWith(path, ".graph") || absl::EndsWith(path, ".gz")) {
      instances.push_back(ReadInstance(path));
    }
  }
  std::stable_sort(instances.begin(), instances.end(),
                   [](const PublicInstance& a, const PublicInstance& b) { return a.size < b.size; });
  return instances;
}

constexpr const char* kFolders[] = {"dsa/challenging",   "dsa/somas",        "dsa/iopddl",  "dsa/iree",
                                    "dsa/generated",     "olla/conformance", "olla/graphs", "nnc/graphs",
                                    "nnc/graphs_serial", "nnc/graphs_loops"};

// What a strategy made of an instance: the bytes that it takes, or -1 where it does not apply.
int64_t Placed(const Problem& problem, const Strategy& strategy, const PlannerOptions& options) {
  const absl::StatusOr<Placement> placement = PlaceProblem(problem, strategy.name, options);
  EXPECT_TRUE(placement.ok()) << placement.status();
  if (!placement.ok()) return -1;
  EXPECT_TRUE(Verify(problem, placement->plan).ok()) << Verify(problem, placement->plan);
  const int64_t total = placement->plan.arena_bytes;
  EXPECT_GE(total, LowerBound(problem));
  EXPECT_GE(total, placement->report.lower_bound);
  EXPECT_TRUE(!placement->report.proven || total == placement->report.lower_bound);
  return total;
}

int64_t Placed(const Tasks& tasks, const Strategy& strategy, const PlannerOptions& options) {
  const TaskOrder given = TaskNet(tasks).ProgramOrder();
  const absl::StatusOr<TaskPlan> plan = PlanTasks(tasks, given, strategy.name, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return -1;
  EXPECT_TRUE(CheckOrder(tasks, plan->order).ok()) << CheckOrder(tasks, plan->order);
  EXPECT_TRUE(strategy.order != nullptr || plan->order == given);
  const Problem lifetimes = LifetimesOf(tasks, plan->order);
  EXPECT_TRUE(Verify(lifetimes, plan->placement.plan).ok()) << Verify(lifetimes, plan->placement.plan);
  const int64_t total = plan->placement.plan.arena_bytes;
  EXPECT_GE(total, LowerBound(lifetimes));
  EXPECT_GE(total, plan->placement.report.lower_bound);
  return total;
}

int64_t Placed(const PartialProblem& problem, const Strategy& strategy, const PlannerOptions& options) {
  const absl::StatusOr<UsesPlan> plan = PlanUses(problem, strategy, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return -1;
  const absl::Status verified = VerifyPartial(InSequence(problem, plan->order), plan->placement.plan);
  EXPECT_TRUE(verified.ok()) << verified;
  EXPECT_GE(plan->placement.plan.arena_bytes, PeakOf(problem, plan->order));
  EXPECT_GE(plan->placement.plan.arena_bytes, plan->placement.report.lower_bound);
  return plan->placement.plan.arena_bytes;
}

int64_t Placed(const PublicInstance& instance, const Strategy& strategy, const PlannerOptions& options) {
  if (instance.problem.has_value()) return Placed(*instance.problem, strategy, options);
  if (instance.tasks.has_value()) return Placed(*instance.tasks, strategy, options);
  return Placed(*instance.partial, strategy, options);
}

using Totals = std::map<std::string, int64_t>;  // by strategy

// Which strategies hold which others: the left one needs no more than the right one.
void CompareTotals(const Totals& totals) {
  constexpr std::pair<const char*, const char*> kHolds[] = {
      {"best", "exact"}, {"exact", "offset"}, {"best", "both"},    {"best", "share"}, {"best", "inplace"},
      {"best", "nnc"},   {"best", "none"},    {"inplace", "none"}, {"share", "none"}, {"coloring", "none"}};
  for (const auto& [smaller, larger] : kHolds) {
    EXPECT_LE(totals.at(smaller), totals.at(larger)) << smaller << " beside " << larger;
  }
  for (const auto& [name, total] : totals) EXPECT_LE(total, totals.at("none")) << name << " beside none";
}

// The rule of NNC's document may look at all pairs before each step: hours for these, as memory/share/nnc.h says.
// CampaignTheSeedRuleToo names what is left out.
constexpr size_t kMostForSeedRule = 5000;
bool IsTooLargeForSeedRule(const PublicInstance& instance) { return instance.size > kMostForSeedRule; }

bool Applies(const Strategy& strategy, const PublicInstance& instance) {
  if (strategy.by_solver && IlpSolvers().empty()) return false;  // NoSolver says so
  return strategy.name != "nnc-seed" || !IsTooLargeForSeedRule(instance);
}

void RunStrategies(const PublicInstance& instance, int64_t work_limit, int64_t solver_work) {
  SCOPED_TRACE(instance.name);
  Totals totals;
  for (const Strategy& strategy : Strategies()) {
    if (!Applies(strategy, instance)) continue;
    SCOPED_TRACE(strategy.name);
    totals[std::string(strategy.name)] =
        Placed(instance, strategy, {.work_limit = strategy.by_solver ? solver_work : work_limit});
  }
  CompareTotals(totals);
}

class EveryInstance : public testing::TestWithParam<const char*> {};

TEST_P(EveryInstance, TheSmallestByEveryStrategy) {
  const std::vector<PublicInstance> instances = InstancesIn(GetParam());
  if (instances.empty()) GTEST_SKIP() << "NOT TESTED: nothing in " << SharedData(GetParam()) << "; set SNUG_SHARED";
  if (test::kSanitized && instances.front().size > 500) GTEST_SKIP() << "too slow under a sanitizer";
  RunStrategies(instances.front(), 200'000, 500);
}

TEST_P(EveryInstance, CampaignAllByEveryStrategy) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN";
  const std::vector<PublicInstance> instances = InstancesIn(GetParam());
  if (instances.empty()) GTEST_SKIP() << "NOT TESTED: nothing in " << SharedData(GetParam()) << "; set SNUG_SHARED";
  for (const PublicInstance& instance : instances) RunStrategies(instance, 0, 20'000);
}

// Whether CampaignAllByEveryStrategy had nnc-seed for all of them: a test of its own, to be counted as skipped.
TEST_P(EveryInstance, CampaignTheSeedRuleToo) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN";
  const std::vector<PublicInstance> instances = InstancesIn(GetParam());
  if (instances.empty()) GTEST_SKIP() << "NOT TESTED: nothing in " << SharedData(GetParam()) << "; set SNUG_SHARED";
  std::vector<std::string> left_out;
  for (const PublicInstance& instance : instances) {
    if (IsTooLargeForSeedRule(instance)) {
      left_out.push_back(absl::StrCat(instance.name, " (", instance.size, ")"));
    }
  }
  if (!left_out.empty()) {
    GTEST_SKIP() << "NOT TESTED: nnc-seed on more than " << kMostForSeedRule
                 << " buffers: " << absl::StrJoin(left_out, ", ");
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, EveryInstance, testing::ValuesIn(kFolders), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
});

TEST(EveryInstance, NoSolver) {
  if (IlpSolvers().empty()) GTEST_SKIP() << "NOT TESTED: olla; this build has no solver of integer linear programs";
}

}  // namespace
}  // namespace snug::core::memory
