// OLLA on the networks of models/: whatever its limit, it keeps what it was given and what `best` finds.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "memory/ilp/solver.h"
#include "memory/strategies.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

class OllaOnModels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (memory::IlpSolvers().empty()) GTEST_SKIP() << "this build has no solver of integer linear programs";
  }
};

TEST_P(OllaOnModels, IsNeverAboveTheGivenOrderOrBest) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const bool training : {false, true}) {
    CompileOptions options{.batch = 2, .threads = 1};
    options.training = training;
    options.memory.strategy = "none";  // keeps the given order
    const absl::StatusOr<Compiled> compiled =
        Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const memory::Tasks& tasks = compiled->tasks.tasks;
    const memory::TaskOrder& given = compiled->executable.memory.step.order;
    const auto total = [&](const char* strategy, const memory::PlannerOptions& planner) {
      const absl::StatusOr<memory::TaskPlan> plan = memory::PlanTasks(tasks, given, strategy, planner);
      EXPECT_TRUE(plan.ok()) << plan.status().message();
      if (!plan.ok()) return int64_t{-1};
      const std::string notes = absl::StrJoin(plan->placement.report.notes, "\n");
      if (std::string(strategy) == "olla") {
        EXPECT_THAT(notes, HasSubstr("the plan is that of"));
      }
      return plan->placement.plan.arena_bytes;
    };
    const int64_t best = total("best", {});
    const int64_t exact = total("exact", {.work_limit = 1 << 20});
    memory::PlannerOptions alone{.work_limit = 1};
    alone.olla.fast_start = false;
    EXPECT_LE(total("olla", {.work_limit = 1}), best);
    EXPECT_LE(total("olla", alone), exact);
    // Whole blocks, in place where that is possible, are had in no time at all.
    EXPECT_LE(total("olla", {.time_limit = 1e-9}), total("both", {}));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OllaOnModels, testing::ValuesIn(Models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug::core
