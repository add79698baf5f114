// Planning is paid once, an allocator every step: when the plan has paid for itself. Counted, not timed, so that it is
// the same on every machine: what planning looked at and what an allocator would be asked are weighed by what one of
// each was measured to take (docs/benchmarks/memory.md: planning seconds under "Memory of a step", and "Dynamic memory
// beside the plan").
#include <gtest/gtest.h>

#include <string>

#include "engine/compile/memory/dynamic_memory.h"
#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

constexpr int64_t kSteps = 10'000;  // some hundred for most; networks that need search take more
// A unit of the planners' work takes 6 to 17 ns on the larger networks, and what is not counted half a millisecond.
constexpr int64_t kWorkNanoseconds = 20, kUncountedNanoseconds = 1'000'000;
constexpr int64_t kCallNanoseconds = 65;  // auto_growth's, in training

class PlanningCost : public testing::TestWithParam<std::string> {};

TEST_P(PlanningCost, IsPaidBackByTheAllocatorsCallsOfTenThousandSteps) {
  const absl::StatusOr<LoadedNetwork> loaded =
      LoadNetworkFile(test::SourcePath(absl::StrCat("models/", GetParam(), ".pbtxt")));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.batch = 4});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const memory::TaskPlan& plan = compiled->executable.memory.step;
  const int64_t planning = plan.ordering.work + plan.placement.report.work;
  EXPECT_GT(planning, 0);
  EXPECT_FALSE(compiled->executable.memory.dynamic.has_value());  // a planned step asks nobody

  ASSERT_TRUE(PlanAndLower(*compiled, {.strategy = std::string(kDynamicMemory)}).ok());
  ASSERT_TRUE(compiled->executable.memory.dynamic.has_value());
  const DynamicMemory& dynamic = *compiled->executable.memory.dynamic;
  // What is taken once for all steps is in both.
  const auto calls = static_cast<int64_t>(EventsOf(dynamic, 3).size() - EventsOf(dynamic, 2).size());
  EXPECT_GT(calls, 0);
  RecordProperty("calls_a_step", std::to_string(calls));  // --gtest_output=xml shows both
  RecordProperty("planning_work", std::to_string(planning));
  EXPECT_LT(kUncountedNanoseconds + planning * kWorkNanoseconds, calls * kCallNanoseconds * kSteps)
      << planning << " units of work, " << calls << " calls a step";
}

INSTANTIATE_TEST_SUITE_P(Models, PlanningCost,
                         testing::Values("mlp", "lenet", "resnet18", "resnet50", "mobilenet_v2", "gpt_small"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug::core
