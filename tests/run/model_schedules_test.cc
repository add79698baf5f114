// The schedules of the networks in models/: every pair of Steps that conflict is ordered, no wait can be left out, and
// every engine keeps to it, the dynamic one by the Steps' accesses alone.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/run/executors/executor.h"
#include "tests/run/schedule_util.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

class ModelSchedules : public testing::TestWithParam<std::string> {};
class ModelWaits : public testing::TestWithParam<std::string> {};

TEST_P(ModelWaits, OrderEveryConflictWithTheFewestWaits) {
  absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  CompileOptions options{.threads = 1};
  absl::StatusOr<Compiled> compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const int streams : {2, 3}) {
    for (const char* policy : {"serial", "waitless", "colors"}) {
      SCOPED_TRACE(std::to_string(streams) + " streams, " + policy);
      const absl::Status planned =
          PlanAndLower(*compiled, {.strategy = "both", .streams = streams, .stream_policy = policy});
      ASSERT_TRUE(planned.ok()) << planned.message();
      const Schedule& schedule = compiled->executable.schedule;
      std::vector<std::vector<Access>> accesses;
      for (const Step& step : compiled->executable.steps) accesses.push_back(step.accesses);
      const auto pairs = test::ConflictingPairs(accesses);
      const auto reach = test::Reach(schedule, schedule.waits);
      EXPECT_TRUE(test::AllOrdered(pairs, reach));
      ASSERT_FALSE(schedule.waits.empty());
      // A wait is needed if it is the only way from one of its ends to the other, and some pair goes that way: without
      // it, what is before its first Step is no more before its second one. Of many waits, some from all over are
      // tried.
      constexpr size_t kTried = 64;
      const size_t stride = std::max<size_t>(1, schedule.waits.size() / kTried);
      for (size_t left_out = 0; left_out < schedule.waits.size(); left_out += stride) {
        auto waits = schedule.waits;
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(left_out));
        const auto [a, b] = schedule.waits[left_out];
        ASSERT_FALSE(test::AllOrdered({{a, b}}, test::Reach(schedule, waits))) << a << " -> " << b;
        ASSERT_TRUE(test::Conflict(accesses[static_cast<size_t>(a)], accesses[static_cast<size_t>(b)]));
      }
    }
  }
}

TEST_P(ModelSchedules, AreKeptByEveryEngine) {
  absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  CompileOptions options{.threads = 1};
  absl::StatusOr<Compiled> compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const absl::string_view strategy : {memory::kDefaultStrategy, kDynamicMemory}) {
    for (const int streams : {1, 2, 3}) {
      const std::string name(strategy);
      const absl::Status planned =
          PlanAndLower(*compiled, {.strategy = name, .planner = PlannerFor(name), .streams = streams});
      ASSERT_TRUE(planned.ok()) << planned.message();
      std::vector<std::vector<Access>> accesses;
      for (const Step& step : compiled->executable.steps) accesses.push_back(step.accesses);
      const auto pairs = test::ConflictingPairs(accesses);
      for (const ExecutorInfo& engine : Executors()) {
        SCOPED_TRACE(absl::StrCat(strategy, ", ", streams, " streams, ", engine.name));
        const auto noted = test::MakeNoted(accesses, compiled->executable.schedule);
        auto executor = MakeExecutor(engine.kind, noted->executable, {}, nullptr);
        ASSERT_TRUE(executor.ok()) << executor.status().message();
        for (int run = 0; run < 3; ++run) ASSERT_NO_FATAL_FAILURE(test::RunAndCheckOrder(**executor, *noted, pairs));
      }
    }
  }
}

// Each wait is left out in turn, and all that is before another worked out anew: that grows with the cube.
INSTANTIATE_TEST_SUITE_P(Run, ModelWaits, testing::ValuesIn(ModelsOfAtMost(200)),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Run, ModelSchedules, testing::ValuesIn(ModelsOfAtMost(1000)),  // with the square
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug::core
