// The schedules of the networks in models/: every pair of Steps that conflict is ordered, and no wait can be left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/run/schedule_util.h"
#include "tests/run/train_util.h"
#include "tests/testing/source_path.h"

namespace snug {
namespace {

std::vector<std::string> Models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::SourcePath("models"))) {
    if (entry.path().extension() == ".pbtxt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ModelSchedules : public testing::TestWithParam<std::string> {};

TEST_P(ModelSchedules, OrderEveryConflictWithTheFewestWaits) {
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
      // it, what is before its first Step is no more before its second one.
      for (size_t left_out = 0; left_out < schedule.waits.size(); ++left_out) {
        auto waits = schedule.waits;
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(left_out));
        const auto [a, b] = schedule.waits[left_out];
        ASSERT_FALSE(test::AllOrdered({{a, b}}, test::Reach(schedule, waits))) << a << " -> " << b;
        ASSERT_TRUE(test::Conflict(accesses[static_cast<size_t>(a)], accesses[static_cast<size_t>(b)]));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Run, ModelSchedules, testing::ValuesIn(Models()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug
