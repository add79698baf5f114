#include "memory/place/olla.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "memory/formats/formats.h"
#include "memory/ilp/solver.h"
#include "memory/order/olla/graph.h"
#include "memory/order/olla/orders.h"
#include "memory/order/olla/reductions.h"
#include "memory/order/olla/schedule.h"
#include "memory/place/olla_pack.h"
#include "memory/place/placers.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tests/memory/order_random_tasks.h"
#include "tests/memory/shared_data.h"

namespace snug::core::memory {
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

// The programs alone, from the first legal order: what `best` finds would leave them nothing to do.
PlannerOptions With(Mode mode) {
  PlannerOptions options;
  options.work_limit = 5'000'000;  // far more than these programs take; a clock would make the tests depend on the load
  options.olla.mode = mode;
  options.olla.fast_start = false;
  return options;
}

absl::StatusOr<TaskPlan> PlanOlla(const Tasks& tasks, const PlannerOptions& options) {
  return PlanByOlla(tasks, FirstOrder(tasks), options);
}

int64_t Peak(const Tasks& tasks, const TaskPlan& plan) { return PeakOf(tasks, plan.order); }

void ExpectSound(const Tasks& tasks, const TaskPlan& plan, const std::string& what) {
  ASSERT_TRUE(CheckOrder(tasks, plan.order).ok()) << what;
  const absl::Status verified = Verify(plan.problem, plan.placement.plan);
  EXPECT_TRUE(verified.ok()) << what << ": " << verified.message();
  if (tasks.in_place.empty()) {
    EXPECT_LE(plan.ordering.lower_bound, Peak(tasks, plan)) << what;
  }
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
    for (const bool merge : {false, true}) {
      PlannerOptions options = With(Mode::kSplit);
      options.olla.merge = merge;
      const absl::StatusOr<TaskPlan> plan = PlanOlla(tasks, options);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      ExpectSound(tasks, *plan, expected.name);
      EXPECT_EQ(Peak(tasks, *plan), expected.peak) << expected.name;
      EXPECT_EQ(plan->ordering.lower_bound, expected.peak) << expected.name;
      EXPECT_EQ(plan->placement.plan.arena_bytes, expected.peak) << expected.name;
      EXPECT_TRUE(plan->placement.report.proven) << expected.name;
    }
  }
}

TEST_F(OllaTest, JointAndSplitAgreeOnTheConformanceGraphs) {
  if (!HasSharedData()) GTEST_SKIP() << "no data at " << SharedData("olla/conformance");
  for (const Expected& expected : kConformance) {
    const Tasks tasks = ReadConformance(expected.name);
    const absl::StatusOr<TaskPlan> plan = PlanOlla(tasks, With(Mode::kJoint));
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
    options.olla.merge = seed % 7 < 3;
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
      {"no merging", [](OllaOptions& o) { o.merge = false; }, true},
      {"fast start", [](OllaOptions& o) { o.fast_start = true; }, true},
      {"warm start", [](OllaOptions& o) { o.warm_start = true; }, true},
      {"early updates", [](OllaOptions& o) { o.early_updates = true; }, false},
      {"pyramid", [](OllaOptions& o) { o.pyramid = true; }, false},
      {"as in the paper", [](OllaOptions& o) { o = OllaOptions::Paper(); }, false},
  };
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    std::mt19937 random(seed);
    Tasks tasks = RandomOrderingTasks(random, 6);
    tasks.in_place.clear();
    for (const Mode mode : {Mode::kSplit, Mode::kJoint}) {
      const absl::StatusOr<TaskPlan> reference = PlanOlla(tasks, With(mode));
      ASSERT_TRUE(reference.ok()) << reference.status().message();
      for (const Switch& reduction : kSwitches) {
        const std::string what = absl::StrCat("seed ", seed, ", ", reduction.name);
        PlannerOptions options = With(mode);
        reduction.turn(options.olla);
        const absl::StatusOr<TaskPlan> plan = PlanOlla(tasks, options);
        ASSERT_TRUE(plan.ok()) << what << ": " << plan.status().message();
        ExpectSound(tasks, *plan, what);
        if (!reduction.lossless) continue;
        if (mode == Mode::kSplit) {
          EXPECT_EQ(plan->ordering.lower_bound, reference->ordering.lower_bound) << what;
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
    const absl::StatusOr<TaskPlan> split = PlanOlla(tasks, With(Mode::kSplit));
    const absl::StatusOr<TaskPlan> joint = PlanOlla(tasks, With(Mode::kJoint));
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
  CompareWithExhaustiveSearch(1000, 1000, 12);
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
    const absl::StatusOr<Placement> olla = PlaceOlla(problem, With(Mode::kSplit));
    const absl::StatusOr<Placement> exact = PlaceExact(problem, {});
    ASSERT_TRUE(olla.ok() && exact.ok()) << olla.status().message() << exact.status().message();
    EXPECT_TRUE(Verify(problem, olla->plan).ok()) << "seed " << seed;
    EXPECT_LE(olla->report.lower_bound, olla->plan.arena_bytes) << "seed " << seed;
    ASSERT_TRUE(exact->report.proven) << "seed " << seed;
    EXPECT_EQ(olla->plan.arena_bytes, exact->plan.arena_bytes) << "seed " << seed;
    EXPECT_TRUE(olla->report.proven) << "seed " << seed;
  }
}

// Forty tasks in ten chains: far from solved when a limit strikes.
Tasks TenChains() {
  Tasks tasks;
  std::mt19937 random(7);
  for (int32_t t = 0; t < 40; ++t) {
    tasks.names.push_back(absl::StrCat("t", t));
    TaskValue value{
        .name = absl::StrCat("v", t), .size_bytes = 1 + static_cast<int64_t>(random() % 1000), .producer = t};
    if (t + 10 < 40) value.readers.push_back(t + 10);
    tasks.values.push_back(value);
  }
  return tasks;
}

TEST_F(OllaTest, MoreWorkIsNeverWorse) {
  std::vector<Tasks> graphs = {TenChains()};
  for (uint32_t seed = 30; seed < 34; ++seed) {
    std::mt19937 random(seed);
    graphs.push_back(RandomOrderingTasks(random, 12));
  }
  for (const Tasks& tasks : graphs) {
    for (const Mode mode : {Mode::kSplit, Mode::kJoint, Mode::kAuto}) {
      int64_t last = PackLargestFirst(LifetimesOf(tasks, FirstOrder(tasks))).arena_bytes;
      int64_t last_bound = 0;
      for (const int64_t work : {1, 30, 300, 2000}) {
        PlannerOptions options = With(mode);
        options.work_limit = work;
        const absl::StatusOr<TaskPlan> plan = PlanOlla(tasks, options);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        ExpectSound(tasks, *plan, absl::StrCat("work ", work));
        const SearchReport& report = plan->placement.report;
        EXPECT_LE(plan->placement.plan.arena_bytes, last) << "work " << work;
        EXPECT_GE(report.lower_bound, last_bound) << "work " << work;
        EXPECT_FALSE(report.curve.empty());
        EXPECT_FALSE(report.clock_stopped);
        last = plan->placement.plan.arena_bytes;
        last_bound = report.lower_bound;
      }
    }
  }
}

// A limit that does not strike changes nothing; one that strikes at once leaves the given order's plan.
TEST_F(OllaTest, AClockOnlyCutsTheSearchOff) {
  std::mt19937 random(8);
  for (int i = 0; i < 5; ++i) {
    const Tasks tasks = RandomOrderingTasks(random, 9);
    for (const Mode mode : {Mode::kSplit, Mode::kAuto}) {
      PlannerOptions options = With(mode);
      const absl::StatusOr<TaskPlan> without = PlanOlla(tasks, options);
      options.time_limit = 3600;
      const absl::StatusOr<TaskPlan> with = PlanOlla(tasks, options);
      ASSERT_TRUE(without.ok() && with.ok()) << without.status() << with.status();
      EXPECT_EQ(with->order, without->order);
      EXPECT_EQ(with->placement.plan.offsets, without->placement.plan.offsets);
      EXPECT_EQ(with->placement.report.lower_bound, without->placement.report.lower_bound);
      EXPECT_EQ(with->placement.report.notes, without->placement.report.notes);
      EXPECT_FALSE(with->placement.report.clock_stopped);
      options.time_limit = 1e-9;
      const absl::StatusOr<TaskPlan> cut = PlanOlla(tasks, options);
      ASSERT_TRUE(cut.ok()) << cut.status();
      ExpectSound(tasks, *cut, "no time at all");
      EXPECT_EQ(cut->order, FirstOrder(tasks));
      EXPECT_TRUE(cut->placement.report.clock_stopped);
    }
    PlannerOptions options = With(Mode::kSplit);
    const absl::StatusOr<Ordering> ordering = OrderOlla(tasks, options);
    const Problem problem = LifetimesOf(tasks, FirstOrder(tasks));
    const absl::StatusOr<Placement> placement = PlaceOlla(problem, options);
    options.time_limit = 3600;
    const absl::StatusOr<Ordering> ordering_with = OrderOlla(tasks, options);
    const absl::StatusOr<Placement> placement_with = PlaceOlla(problem, options);
    ASSERT_TRUE(ordering.ok() && placement.ok() && ordering_with.ok() && placement_with.ok());
    EXPECT_EQ(ordering_with->order, ordering->order);
    EXPECT_EQ(placement_with->plan.offsets, placement->plan.offsets);
  }
}

// Every output over each input of its task that is as large.
void AllowInPlace(Tasks* tasks) {
  for (size_t output = 0; output < tasks->values.size(); ++output) {
    const TaskValue& over = tasks->values[output];
    for (size_t input = 0; input < tasks->values.size() && over.producer >= 0; ++input) {
      const TaskValue& under = tasks->values[input];
      const bool read = std::find(under.readers.begin(), under.readers.end(), over.producer) != under.readers.end();
      if (input == output || !read || under.size_bytes < over.size_bytes) continue;
      tasks->in_place.push_back({static_cast<int32_t>(output), static_cast<int32_t>(input)});
    }
  }
}

// The order that is given and the plan of `best` are never thrown away, whatever the limit, and in place is used.
TEST_F(OllaTest, IsNeverAboveTheGivenOrderOrBest) {
  std::mt19937 random(9);
  int in_place = 0;
  for (int i = 0; i < 12; ++i) {
    Tasks tasks = RandomOrderingTasks(random, 30);
    AllowInPlace(&tasks);
    const TaskOrder given = FirstOrder(tasks);
    const absl::StatusOr<TaskPlan> best = PlanTasks(tasks, given, "best", {});
    const absl::StatusOr<TaskPlan> exact = PlanTasks(tasks, given, "exact", {.work_limit = 1 << 20});
    ASSERT_TRUE(best.ok() && exact.ok());
    for (const int64_t work : {1, 1000}) {
      PlannerOptions options{.work_limit = work};
      const absl::StatusOr<TaskPlan> plan = PlanTasks(tasks, given, "olla", options);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_LE(plan->placement.plan.arena_bytes, best->placement.plan.arena_bytes);
      EXPECT_GE(plan->placement.report.lower_bound, best->placement.report.lower_bound);
      options.olla.fast_start = false;
      const absl::StatusOr<TaskPlan> alone = PlanTasks(tasks, given, "olla", options);
      ASSERT_TRUE(alone.ok()) << alone.status();
      EXPECT_LE(alone->placement.plan.arena_bytes, exact->placement.plan.arena_bytes);
    }
    in_place += static_cast<int>(tasks.in_place.size());
  }
  EXPECT_GT(in_place, 0);
}

TEST_F(OllaTest, SaysWhatItDidNotTry) {
  Tasks tasks;  // that can run in any sequence, and none as one with another
  for (int32_t t = 0; t < 300; ++t) {
    tasks.names.push_back(absl::StrCat("t", t));
    tasks.values.push_back({.name = absl::StrCat("in", t), .size_bytes = 10 + t % 7, .readers = {t}});
    tasks.values.push_back({.name = absl::StrCat("out", t), .size_bytes = 10 + t % 5, .producer = t, .fetched = true});
  }
  PlannerOptions options = With(Mode::kAuto);
  options.work_limit = 1;
  const absl::StatusOr<TaskPlan> plan = PlanOlla(tasks, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string notes = absl::StrJoin(plan->placement.report.notes, "\n");
  EXPECT_THAT(notes, HasSubstr("the plan is that of"));
  EXPECT_THAT(notes, HasSubstr("left out: a stage of"));
  EXPECT_THAT(notes, HasSubstr("binaries, more than the solver is given (60000)"));
  EXPECT_THAT(notes, HasSubstr("the program of the order, updates early"));
  EXPECT_THAT(notes, HasSubstr("in one: left out: 300 tasks, more than 60"));
}

// resnet_b1 has the optimum after a fraction of the default work, alexnet_b1 and vgg_b1 the proof, too.
TEST_F(OllaTest, ReachesTheOptimumOfTrainingGraphsByTheProgramsAlone) {
  if (!HasSharedData()) GTEST_SKIP() << "no data at " << SharedData("olla/graphs");
  for (const auto& [name, peak] : {std::pair("alexnet_b1", 395'451'552), std::pair("vgg_b1", 942'611'872),
                                   std::pair("squeezenet_b1", 43'159'136)}) {
    const absl::StatusOr<GraphFile> file = ReadGraphFile(SharedData(absl::StrCat("olla/graphs/", name, ".graph.gz")));
    ASSERT_TRUE(file.ok()) << file.status();
    PlannerOptions options = With(Mode::kSplit);
    options.time_limit = 3600;  // cuts nothing off, and gives no program only a part of itself
    const absl::StatusOr<TaskPlan> plan = PlanOlla(file->tasks, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(Peak(file->tasks, *plan), peak) << name;
    EXPECT_EQ(plan->ordering.lower_bound, peak) << name;
  }
}

TEST_F(OllaTest, SolvesIntegerPrograms) {
  // Most value in a knapsack of 10: sizes 6, 5, 5, values 10, 7, 7; half of the first would be worth more.
  IlpModel model;
  const int32_t a = model.AddVariable(0, 1, true, -10);
  const int32_t b = model.AddVariable(0, 1, true, -7);
  const int32_t c = model.AddVariable(0, 1, true, -7);
  model.AddConstraint({{{a, 6}, {b, 5}, {c, 5}}}, -IlpModel::kInfinity, 10);
  const absl::StatusOr<IlpResult> best = SolveIlp(model, {});
  ASSERT_TRUE(best.ok()) << best.status().message();
  EXPECT_EQ(best->status, IlpStatus::kOptimal);
  EXPECT_THAT(best->values, ElementsAre(0, 1, 1));
  EXPECT_DOUBLE_EQ(best->objective, -14);
  EXPECT_DOUBLE_EQ(best->bound, -14);
  model.AddConstraint({{{a, 1}}}, 1, 1);
  model.AddConstraint({{{b, 1}, {c, 1}}}, 1, 2);
  const absl::StatusOr<IlpResult> none = SolveIlp(model, {});
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_EQ(none->status, IlpStatus::kInfeasible);
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

// What runs as one task loses nothing: the least peak is the same, and an order of the groups has what it promises.
TEST(OllaMerge, KeepsTheLeastPeak) {
  int merged_tasks = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const Tasks tasks = RandomOrderingTasks(random, 10);
    const MergedTasks merged = Merge(tasks);
    ASSERT_TRUE(CheckTasks(merged.tasks).ok()) << seed;
    EXPECT_EQ(LeastPeak(merged.tasks), LeastPeak(tasks)) << seed;
    merged_tasks += tasks.size() - merged.tasks.size();
    for (const TaskOrder& order : {FirstOrder(merged.tasks), merged.Collapse(FirstOrder(tasks))}) {
      ASSERT_TRUE(CheckOrder(merged.tasks, order).ok()) << seed;
      const TaskOrder expanded = merged.Expand(order);
      ASSERT_TRUE(CheckOrder(tasks, expanded).ok()) << seed;
      EXPECT_LE(PeakOf(tasks, expanded), PeakOf(merged.tasks, order)) << seed;
    }
  }
  EXPECT_GT(merged_tasks, 200);
}

// A solver tells of variables that it has done away with nothing: an order comes of the rest, and it is legal.
TEST(OllaSchedule, DecodesWhatIsKnown) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    const Tasks tasks = RandomOrderingTasks(random, 12);
    const OllaGraph graph(tasks, {});
    IlpModel model;
    const OllaSchedule schedule(graph, true, &model);
    std::vector<double> values(static_cast<size_t>(model.variables()), 0);
    const TaskOrder order = FirstOrder(tasks);
    schedule.Encode(order, &values);
    EXPECT_EQ(schedule.Decode(values), order) << seed;
    for (double& value : values) {
      if (random() % 3 == 0) value = std::numeric_limits<double>::quiet_NaN();
    }
    EXPECT_TRUE(CheckOrder(tasks, schedule.Decode(values)).ok()) << seed;
  }
}

}  // namespace
}  // namespace snug::core::memory
