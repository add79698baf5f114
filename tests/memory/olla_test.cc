#include "memory/order/olla.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "memory/formats/graph.h"
#include "memory/ilp/solver.h"
#include "memory/order/olla_graph.h"
#include "memory/order/olla_stages.h"
#include "memory/order/olla_updates.h"
#include "memory/place/exact.h"
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
  options.work_limit = 5'000'000;  // far more than these programs take; a clock would make the tests depend on the load
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

TEST_F(OllaTest, EachReductionAloneIsSoundAndTheLosslessOnesKeepTheOptimum) {
  struct Switch {
    const char* name;
    void (*turn)(OllaOptions&);
    bool lossless;
  };
  constexpr Switch kSwitches[] = {
      {"no spans", [](OllaOptions& o) { o.spans = false; }, true},
      {"no precedence", [](OllaOptions& o) { o.precedence = false; }, true},
      {"no stages", [](OllaOptions& o) { o.stages = false; }, true},
      {"warm start", [](OllaOptions& o) { o.warm_start = true; }, true},
      {"early updates", [](OllaOptions& o) { o.early_updates = true; }, false},
      {"pyramid", [](OllaOptions& o) { o.pyramid = true; }, false},
      {"as in the paper", [](OllaOptions& o) { o = OllaOptions::Paper(); }, false},
  };
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    std::mt19937 random(seed);
    const Tasks tasks = RandomOrderingTasks(random, 6);
    for (const Mode mode : {Mode::kSplit, Mode::kJoint}) {
      const absl::StatusOr<OllaPlan> reference = PlanOlla(tasks, With(mode));
      ASSERT_TRUE(reference.ok()) << reference.status().message();
      for (const Switch& reduction : kSwitches) {
        const std::string what = absl::StrCat("seed ", seed, ", ", reduction.name);
        PlannerOptions options = With(mode);
        reduction.turn(options.olla);
        const absl::StatusOr<OllaPlan> plan = PlanOlla(tasks, options);
        ASSERT_TRUE(plan.ok()) << what << ": " << plan.status().message();
        ExpectSound(tasks, *plan, what);
        if (!reduction.lossless) continue;
        if (mode == Mode::kSplit) {
          EXPECT_EQ(plan->ordering.peak, reference->ordering.peak) << what;
        } else {
          EXPECT_EQ(plan->placement.plan.arena_bytes, reference->placement.plan.arena_bytes) << what;
        }
      }
    }
  }
}

// The split program can lose bytes to fragmentation; the joint one never needs more. Where its order is proven, no plan
// is smaller than the peak. Returns how often they differ.
int CompareJointWithSplit(uint32_t first_seed, int count, int max_tasks) {
  int differ = 0;
  for (uint32_t seed = first_seed; seed < first_seed + static_cast<uint32_t>(count); ++seed) {
    std::mt19937 random(seed);
    Tasks tasks = RandomOrderingTasks(random, max_tasks);
    tasks.in_place.clear();
    const std::string what = absl::StrCat("seed ", seed);
    const absl::StatusOr<OllaPlan> split = PlanOlla(tasks, With(Mode::kSplit));
    const absl::StatusOr<OllaPlan> joint = PlanOlla(tasks, With(Mode::kJoint));
    EXPECT_TRUE(split.ok() && joint.ok()) << what;
    if (!split.ok() || !joint.ok()) return differ;
    ExpectSound(tasks, *split, what);
    ExpectSound(tasks, *joint, what);
    EXPECT_LE(joint->placement.plan.arena_bytes, split->placement.plan.arena_bytes) << what;
    EXPECT_GE(joint->placement.plan.arena_bytes, LeastPeak(tasks)) << what;
    differ += joint->placement.plan.arena_bytes < split->placement.plan.arena_bytes ? 1 : 0;
  }
  return differ;
}

TEST_F(OllaTest, JointNeverNeedsMoreThanSplit) { CompareJointWithSplit(1, 10, 6); }

TEST_F(OllaTest, CampaignRandomGraphs) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "set SNUG_CAMPAIGN";
  CompareWithExhaustiveSearch(1000, 1000, 10);
  const int differ = CompareJointWithSplit(1000, 200, 7);
  std::printf("joint below split: %d of 200\n", differ);
}

// With uniform alignment the program is exact: its proofs must agree with those of branch and bound.
TEST_F(OllaTest, PlacesRandomProblemsAsSmallAsBranchAndBound) {
  for (uint32_t seed = 1; seed <= 15; ++seed) {
    std::mt19937 random(seed);
    Problem problem;
    const int alignment = seed % 2 == 0 ? 1 : 16;
    for (int i = 0; i < 7; ++i) {
      const auto first = static_cast<int32_t>(random() % 8);
      Buffer buffer{.name = absl::StrCat("b", i),
                    .size_bytes = static_cast<int64_t>(random() % 40),
                    .alignment = alignment,
                    .first = first,
                    .last = first + static_cast<int32_t>(random() % 5)};
      if (i == 0 && seed % 3 == 0) buffer.fixed_offset = 32;
      if (buffer.last - buffer.first == 4) buffer.gaps = {{buffer.first + 1, buffer.first + 2}};
      problem.buffers.push_back(buffer);
    }
    const absl::StatusOr<Placement> olla = PlaceOlla(problem, {.work_limit = 5'000'000});
    const absl::StatusOr<Placement> exact = PlaceExact(problem, {});
    ASSERT_TRUE(olla.ok() && exact.ok()) << olla.status().message() << exact.status().message();
    EXPECT_TRUE(Verify(problem, olla->plan).ok()) << "seed " << seed;
    EXPECT_LE(olla->report.lower_bound, olla->plan.arena_bytes) << "seed " << seed;
    ASSERT_TRUE(exact->report.proven) << "seed " << seed;
    EXPECT_EQ(olla->plan.arena_bytes, exact->plan.arena_bytes) << "seed " << seed;
    EXPECT_TRUE(olla->report.proven) << "seed " << seed;
  }
}

// Forty tasks in ten chains: far from solved when the limit strikes.
TEST_F(OllaTest, HasAnAnswerWhenTheLimitStrikes) {
  Tasks tasks;
  std::mt19937 random(7);
  for (int32_t t = 0; t < 40; ++t) {
    tasks.names.push_back(absl::StrCat("t", t));
    TaskValue value{
        .name = absl::StrCat("v", t), .size_bytes = 1 + static_cast<int64_t>(random() % 1000), .producer = t};
    if (t + 10 < 40) value.readers.push_back(t + 10);
    tasks.values.push_back(value);
  }
  for (const Mode mode : {Mode::kSplit, Mode::kJoint}) {
    for (const int64_t work : {int64_t{1}, int64_t{2000}}) {
      PlannerOptions options;
      options.work_limit = work;
      options.olla.mode = mode;
      const absl::StatusOr<OllaPlan> plan = PlanOlla(tasks, options);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      ExpectSound(tasks, *plan, absl::StrCat("work ", work));
      EXPECT_LE(plan->ordering.peak, PeakOf(tasks, FirstOrder(tasks)));
      EXPECT_FALSE(plan->placement.report.curve.empty());
    }
  }
}

TEST_F(OllaTest, NamesTheSolversThereAre) {
  PlannerOptions options;
  options.olla.solver = "abacus";
  std::mt19937 random(1);
  const absl::StatusOr<Ordering> ordering = OrderOlla(RandomOrderingTasks(random, 8), options);
  EXPECT_EQ(ordering.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ordering.status().message()), HasSubstr("no solver \"abacus\""));
}

TEST_F(OllaTest, SolvesIntegerPrograms) {
  // Most value in a knapsack of 10: sizes 6, 5, 5, values 10, 7, 7; half of the first would be worth more.
  IlpModel model;
  const int32_t a = model.AddVariable(0, 1, true, -10);
  const int32_t b = model.AddVariable(0, 1, true, -7);
  const int32_t c = model.AddVariable(0, 1, true, -7);
  model.AddConstraint({{{a, 6}, {b, 5}, {c, 5}}}, -IlpModel::kInfinity, 10);
  for (const absl::string_view solver : IlpSolvers()) {
    const absl::StatusOr<IlpResult> result = SolveIlp(model, {.solver = solver});
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->status, IlpStatus::kOptimal);
    EXPECT_THAT(result->values, ElementsAre(0, 1, 1));
    EXPECT_DOUBLE_EQ(result->objective, -14);
    EXPECT_DOUBLE_EQ(result->bound, -14);
  }
  model.AddConstraint({{{a, 1}}}, 1, 1);
  model.AddConstraint({{{b, 1}, {c, 1}}}, 1, 2);
  for (const absl::string_view solver : IlpSolvers()) {
    const absl::StatusOr<IlpResult> result = SolveIlp(model, {.solver = solver});
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->status, IlpStatus::kInfeasible);
  }
}

// forward -> backward2 -> backward1, with an update behind each backward task: the second one's gradient can go before
// the first one's is there, and an edge says so. The last update has nothing to run before.
TEST(OllaUpdates, GoBeforeATaskThatCanRunEarly) {
  const Tasks tasks = {.names = {"forward", "backward2", "update2", "backward1", "loss", "update1"},
                       .values = {{.name = "x", .size_bytes = 8, .producer = 0, .readers = {1, 3}},
                                  {.name = "dw2", .size_bytes = 8, .producer = 1, .readers = {2}},
                                  {.name = "dx", .size_bytes = 8, .producer = 1, .readers = {4}},
                                  {.name = "dy", .size_bytes = 8, .producer = 4, .readers = {3}},
                                  {.name = "dw1", .size_bytes = 8, .producer = 3, .readers = {5}}}};
  EXPECT_THAT(EarlyUpdateEdges(tasks), ElementsAre(Pair(2, 3)));
}

TEST(OllaGraph, KnowsSpansAndWhatDiesBefore) {
  // 0 -> 1 -> 3, 0 -> 2 -> 3, 0 -> 3: the last edge is implied.
  const Tasks tasks = {.names = {"a", "b", "c", "d"},
                       .values = {{.name = "ab", .size_bytes = 1, .producer = 0, .readers = {1}},
                                  {.name = "acd", .size_bytes = 1, .producer = 0, .readers = {2, 3}},
                                  {.name = "bd", .size_bytes = 1, .producer = 1, .readers = {3}},
                                  {.name = "cd", .size_bytes = 1, .producer = 2, .readers = {3}},
                                  {.name = "d", .size_bytes = 1, .producer = 3}}};
  const OllaGraph graph(tasks, {});
  EXPECT_THAT(graph.before(3), UnorderedElementsAre(1, 2));
  EXPECT_EQ(graph.earliest(1), 1);
  EXPECT_EQ(graph.latest(1), 2);
  EXPECT_EQ(graph.earliest(3), 3);
  EXPECT_THAT(graph.last_readers(1), ElementsAre(3));
  EXPECT_TRUE(graph.DiesBefore(0, 4));
  EXPECT_FALSE(graph.DiesBefore(0, 3));  // c may run before b
  EXPECT_FALSE(graph.DiesBefore(2, 4));  // d reads it
  EXPECT_TRUE(graph.Together(2, 4));
  EXPECT_FALSE(graph.Together(0, 3));
}

TEST(OllaStages, CutWhereEveryOrderHasTheSameBehindIt) {
  // a, then b and c in any sequence, then d; `far` is read at the end.
  const Tasks tasks = {.names = {"a", "b", "c", "d"},
                       .values = {{.name = "far", .size_bytes = 5, .producer = 0, .readers = {3}},
                                  {.name = "near", .size_bytes = 1, .producer = 0, .readers = {1, 2}},
                                  {.name = "bd", .size_bytes = 1, .producer = 1, .readers = {3}},
                                  {.name = "cd", .size_bytes = 1, .producer = 2, .readers = {3}}}};
  const std::vector<OllaStage> stages = SplitIntoStages(OllaGraph(tasks, {}), {}, true);
  ASSERT_EQ(stages.size(), 3);
  EXPECT_THAT(stages[0].origin, ElementsAre(0));
  EXPECT_THAT(stages[1].origin, ElementsAre(1, 2));
  EXPECT_THAT(stages[2].origin, ElementsAre(3));
  EXPECT_TRUE(stages[0].tasks.values[0].fetched);
  EXPECT_TRUE(stages[1].tasks.values[0].resident);
  EXPECT_EQ(PeakOf(stages[1].tasks, {0, 1}), 8);
  EXPECT_EQ(SplitIntoStages(OllaGraph(tasks, {}), {}, false).size(), 1);
}

}  // namespace
}  // namespace snug::memory
