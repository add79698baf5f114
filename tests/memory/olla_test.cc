#include "memory/order/olla.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

#include "memory/formats/graph.h"
#include "memory/ilp/solver.h"
#include "memory/order/olla_graph.h"
#include "memory/order/olla_stages.h"
#include "memory/order/olla_updates.h"
#include "memory/place/olla.h"
#include "memory/verifier.h"
#include "tests/memory/order_random_tasks.h"
#include "tests/memory/shared_data.h"

namespace snug::memory {
namespace {

using Mode = OllaOptions::Mode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class OllaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (IlpSolvers().empty()) GTEST_SKIP() << "this build has no solver of integer linear programs";
  }
};

PlannerOptions With(Mode mode) {
  PlannerOptions options;
  options.time_limit = 60;
  options.olla.mode = mode;
  return options;
}

void ExpectSound(const Tasks& tasks, const OllaPlan& plan, const std::string& what) {
  ASSERT_TRUE(CheckOrder(tasks, plan.ordering.order).ok()) << what;
  EXPECT_EQ(plan.ordering.peak, PeakOf(tasks, plan.ordering.order)) << what;
  const absl::Status verified = Verify(plan.problem, plan.placement.plan);
  EXPECT_TRUE(verified.ok()) << what << ": " << verified.message();
  EXPECT_LE(plan.ordering.report.lower_bound, plan.ordering.peak) << what;
  EXPECT_LE(plan.placement.report.lower_bound, plan.placement.plan.arena_bytes) << what;
}

struct Expected {
  const char* name;
  int64_t peak;
};

// The optima: eight are stated in the files, the other four are from exhaustive search (checked here too).
constexpr Expected kConformance[] = {
    {"control_dep_graph", 150},
    {"diamond_graph", 130},
    {"diamond_graph_with_weight", 393},
    {"graph_with_bmmadd", 754},
    {"graph_with_constants", 93},
    {"graph_with_gradients", 1594},
    {"graph_with_two_weights", 524},
    {"graph_with_weights", 183},
    {"multi_fanin_output_graph", 110},
    {"pathological_graph", 9},
    {"shared_multi_fanin_output_graph", 60},
    {"simple_graph", 70},
};

Tasks ReadConformance(const std::string& name) {
  const absl::StatusOr<GraphFile> file = ReadGraphFile(SharedData(absl::StrCat("olla/conformance/", name, ".graph")));
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? file->tasks : Tasks{};
}

bool HasSharedData() { return std::filesystem::exists(SharedData("olla/conformance")); }

TEST_F(OllaTest, SolvesTheConformanceGraphsWithoutWarmStart) {
  if (!HasSharedData()) GTEST_SKIP() << "no data at " << SharedData("olla/conformance");
  for (const Expected& expected : kConformance) {
    const Tasks tasks = ReadConformance(expected.name);
    EXPECT_EQ(LeastPeak(tasks), expected.peak) << expected.name;
    const absl::StatusOr<OllaPlan> plan = PlanOlla(tasks, With(Mode::kSplit));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ExpectSound(tasks, *plan, expected.name);
    EXPECT_EQ(plan->ordering.peak, expected.peak) << expected.name;
    EXPECT_TRUE(plan->ordering.report.proven) << expected.name;
    EXPECT_EQ(plan->placement.plan.arena_bytes, expected.peak) << expected.name;
  }
}

TEST_F(OllaTest, JointAndSplitAgreeOnTheConformanceGraphs) {
  if (!HasSharedData()) GTEST_SKIP() << "no data at " << SharedData("olla/conformance");
  for (const Expected& expected : kConformance) {
    if (absl::string_view(expected.name) == "graph_with_gradients") continue;  // 20 s: in the campaign
    const Tasks tasks = ReadConformance(expected.name);
    const absl::StatusOr<OllaPlan> plan = PlanOlla(tasks, With(Mode::kJoint));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ExpectSound(tasks, *plan, expected.name);
    EXPECT_EQ(plan->placement.plan.arena_bytes, expected.peak) << expected.name;
    EXPECT_TRUE(plan->placement.report.proven) << expected.name;
  }
}

// Random graphs against exhaustive search, with every lossless reduction on and off.
void CompareWithExhaustiveSearch(uint32_t first_seed, int count, int max_tasks) {
  for (uint32_t seed = first_seed; seed < first_seed + static_cast<uint32_t>(count); ++seed) {
    std::mt19937 random(seed);
    const Tasks tasks = RandomOrderingTasks(random, max_tasks);
    const std::string what = absl::StrCat("seed ", seed);
    PlannerOptions options = With(Mode::kSplit);
    options.olla.spans = seed % 2 == 0;
    options.olla.stages = seed % 3 != 0;
    options.olla.warm_start = seed % 5 == 0;
    const absl::StatusOr<Ordering> ordering = OrderOlla(tasks, options);
    ASSERT_TRUE(ordering.ok()) << what << ": " << ordering.status().message();
    ASSERT_TRUE(CheckOrder(tasks, ordering->order).ok()) << what;
    EXPECT_EQ(PeakOf(tasks, ordering->order), ordering->peak) << what;
    EXPECT_EQ(ordering->peak, LeastPeak(tasks)) << what;
    EXPECT_EQ(ordering->report.lower_bound, ordering->peak) << what;
    EXPECT_TRUE(ordering->report.proven) << what;
  }
}

TEST_F(OllaTest, ReachesTheLeastPeakOfRandomGraphs) { CompareWithExhaustiveSearch(1, 40, 8); }

}  // namespace
}  // namespace snug::memory
