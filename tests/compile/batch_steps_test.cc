// One plan for many batches of real networks: verified at every batch of a range, and no dearer than it may be.
#include "engine/compile/memory/batch_steps.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "memory/verifier.h"
#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

constexpr double kMostExcess = 0.005;

// Plans for 1 to `last` and has every batch planned for by its range's plan.
void ExpectPlansForEveryBatch(const std::string& model, int64_t last, bool training, bool every_batch) {
  SCOPED_TRACE(model + (training ? ", training" : ", forward only"));
  const absl::StatusOr<LoadedNetwork> loaded =
      LoadNetworkFile(test::SourcePath(absl::StrCat("models/", model, ".pbtxt")));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const memory::StepOfBatch step_of =
      StepsOverBatches(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.training = training});
  const absl::StatusOr<std::vector<memory::RangePlan>> ranges =
      memory::PlanForBatches(1, last, step_of, {.most_excess = kMostExcess, .every_batch = every_batch});
  ASSERT_TRUE(ranges.ok()) << ranges.status().message();
  int64_t next = 1;
  for (const memory::RangePlan& range : *ranges) {
    ASSERT_EQ(range.first, next);
    if (range.first < range.last) {
      EXPECT_LE(range.WorstExcess(), kMostExcess);
    }
    for (; next <= range.last; ++next) {
      const absl::StatusOr<memory::BatchStep> step = step_of(next);
      ASSERT_TRUE(step.ok()) << step.status().message();
      const absl::StatusOr<memory::TaskPlan> plan = range.PlanFor(step->tasks);
      ASSERT_TRUE(plan.ok()) << "batch " << next << ": " << plan.status().message();
      const memory::Problem problem = memory::LifetimesOf(step->tasks, plan->order);
      ASSERT_TRUE(memory::CheckOrder(step->tasks, plan->order).ok());
      ASSERT_TRUE(memory::Verify(problem, plan->placement.plan).ok()) << "batch " << next;
    }
  }
  EXPECT_EQ(next, last + 1);
}

TEST(BatchSteps, OnePlanServesManyBatches) {
  for (const char* model : {"mlp", "lenet", "gpt_bytes"}) {
    ExpectPlansForEveryBatch(model, 6, true, true);
    ExpectPlansForEveryBatch(model, 6, false, false);
  }
}

// What nothing but the batch changes is one plan: the arena of an MLP is a line over the batch.
TEST(BatchSteps, AnMlpHasOnePlanForAllBatches) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkFile(test::SourcePath("models/mlp.pbtxt"));
  ASSERT_TRUE(loaded.ok());
  const memory::StepOfBatch step_of = StepsOverBatches(loaded->network, loaded->source_map, OpRegistry::Builtin(), {});
  const absl::StatusOr<std::vector<memory::RangePlan>> ranges = memory::PlanForBatches(1, 64, step_of, {});
  ASSERT_TRUE(ranges.ok()) << ranges.status().message();
  ASSERT_EQ(ranges->size(), 1u);
  // Another batch within the range is planned without a search, and as well as by one.
  absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.batch = 37});
  ASSERT_TRUE(compiled.ok());
  const absl::StatusOr<memory::TaskPlan> plan = ranges->front().PlanFor(compiled->tasks.tasks);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const int64_t alone = compiled->executable.memory.step.placement.plan.arena_bytes;
  EXPECT_LE(plan->placement.plan.arena_bytes, alone + alone / 200);
}

TEST(BatchSteps, CampaignEveryModel) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "takes minutes: SNUG_CAMPAIGN=1 runs it";
  for (const auto& entry : std::filesystem::directory_iterator(test::SourcePath("models"))) {
    if (entry.path().extension() != ".pbtxt") continue;
    const std::string model = entry.path().stem();
    for (const bool training : {false, true}) ExpectPlansForEveryBatch(model, 16, training, true);
  }
}

}  // namespace
}  // namespace snug::core
