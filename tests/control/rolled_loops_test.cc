// Loops that stay nodes: the same bits as the straight line of their rounds, bodies planned as the network around them,
// plans that do not grow with rounds, and ends at run time that come when they should.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/substitute.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"
#include "tests/control/rolled_run.h"

namespace snug::core::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsNan;
using testing::Pointwise;

// Where a processor has no products of bfloat16, those of a straight line read float32 parameters as they are, and a
// rolled body reads what a round is given, which is rounded.
bool ReadsRoundedParameters(const std::string& text, const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  const absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  bool rounded = true;
  for (const NodeId id : compiled->graph.ProgramOrder()) {
    const Node& node = compiled->graph.node(id);
    if (node.op == "dense" && compiled->graph.type(node.inputs[1]).dtype != options.precision) rounded = false;
  }
  return rounded;
}

// With all passes and the kernels that networks get.
TEST(RolledLoops, AnLstmHasTheBitsOfItsStraightLine) {
  const std::vector<std::string> gradients = {
      "x", "h", "c", "lstm.ih.weight", "lstm.hh.weight", "lstm.ih.bias", "lstm.hh.bias"};
  std::vector<std::string> fetched = {"loss", "lstm:2"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool time_first : {false, true}) {
      if (time_first && precision == DType::kBFloat16) continue;
      SCOPED_TRACE(absl::StrCat(time_first, " ", static_cast<int>(precision)));
      const std::string text = absl::StrReplaceAll(Lstm(4, 12, 16, time_first), {{"bias: false", "bias: true"}});
      CompileOptions options{.precision = precision, .gradients = gradients};
      options.loops = LoopRule::kUnrolled;
      const bool exact = ReadsRoundedParameters(text, options);
      EXPECT_TRUE(exact || precision == DType::kBFloat16);
      const std::vector<Numbers> unrolled = TrainTwoSteps(text, options, fetched);
      options.loops = LoopRule::kRolled;
      const std::vector<Numbers> truth = TrainTwoSteps(text, options, fetched, ExecutorKind::kSerial);
      ASSERT_EQ(truth.size(), unrolled.size());
      for (size_t i = 0; i < truth.size(); ++i) {
        EXPECT_THAT(truth[i], Pointwise(DoubleNear(exact ? 0 : 0.03), unrolled[i])) << i;
      }
      options.memory.streams = 2;
      EXPECT_EQ(TrainTwoSteps(text, options, fetched, ExecutorKind::kReplay), truth);
      EXPECT_EQ(TrainTwoSteps(text, options, fetched, ExecutorKind::kDynamic), truth);
      options.memory.streams = 1;
      options.memory.strategy = std::string(kDynamicMemory);
      EXPECT_EQ(TrainTwoSteps(text, options, fetched), truth);
    }
  }
}

// By which strategy the bodies of all loops are planned, those inside others too.
void AddBodyStrategies(const Compiled& compiled, std::set<std::string>* strategies) {
  for (const auto& [name, loop] : Rolled(compiled)) {
    strategies->insert(loop->body().executable.memory.strategy);
    AddBodyStrategies(loop->body(), strategies);
  }
}

TEST(RolledLoops, BodiesArePlannedAsTheNetworkAroundThem) {
  const std::string text = Lstm(4, 12, 16, /*time_first=*/true);
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  ASSERT_TRUE(loaded.ok());
  CompileOptions options{.loops = LoopRule::kRolled, .recompute_rounds = 4};  // loops inside loops
  absl::StatusOr<Compiled> again = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(again.ok()) << again.status().message();
  std::map<std::string, int64_t> bytes;
  for (const std::string& strategy : StrategiesAndDynamic()) {
    SCOPED_TRACE(strategy);
    options.memory.strategy = strategy;
    options.memory.planner = PlannerFor(strategy);
    const absl::StatusOr<Compiled> compiled =
        Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    std::set<std::string> of_bodies;
    AddBodyStrategies(*compiled, &of_bodies);
    const bool by_default = strategy == kDynamicMemory || strategy == "olla";
    EXPECT_THAT(of_bodies, ElementsAre(by_default ? std::string(memory::kDefaultStrategy) : strategy));
    bytes[strategy] = compiled->planned_bytes();
    for (const auto& [name, loop] : Rolled(*compiled)) bytes[strategy + name] = loop->workspace_bytes();
    // What is planned again by another strategy is what it would have been.
    const absl::Status planned = PlanAndLower(*again, options.memory);
    ASSERT_TRUE(planned.ok()) << planned.message();
    EXPECT_EQ(again->planned_bytes(), compiled->planned_bytes());
    of_bodies.clear();
    AddBodyStrategies(*again, &of_bodies);
    EXPECT_EQ(of_bodies.size(), 1);
    if (strategy == kDynamicMemory) continue;
    // And so is one from a file.
    const std::string path = absl::StrCat(testing::TempDir(), "/rolled_loops_", getpid(), ".plan");
    ASSERT_TRUE(SavePlan(*compiled, path).ok());
    MemoryOptions from_file;
    from_file.plan_file = path;
    absl::StatusOr<Compiled> fresh = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                                  {.loops = LoopRule::kRolled, .recompute_rounds = 4});
    ASSERT_TRUE(fresh.ok());
    const absl::Status found = PlanAndLower(*fresh, from_file);
    EXPECT_TRUE(found.ok()) << found.message();
    EXPECT_EQ(fresh->planned_bytes(), compiled->planned_bytes());
  }
  EXPECT_GT(bytes["nonelstm/chunks"], bytes["bestlstm/chunks"]);
  EXPECT_GT(bytes["none"], bytes["best"]);
}

// Of a loop of two thousand rounds and one of twenty thousand, only stashes differ.
TEST(RolledLoops, PlansDoNotGrowWithRounds) {
  const auto compile = [](int length) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(Lstm(4, length, 16, true), "test");
    EXPECT_TRUE(loaded.ok());
    absl::StatusOr<Compiled> compiled =
        Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.training = true});
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return *std::move(compiled);
  };
  const Compiled few = compile(2'000), more = compile(20'000);
  EXPECT_EQ(Rolled(few).size(), 2);  // by its size, without being asked
  EXPECT_EQ(few.executable.steps.size(), more.executable.steps.size());
  EXPECT_EQ(Rolled(few).at("lstm")->workspace_bytes(), Rolled(more).at("lstm")->workspace_bytes());
  const double ratio = static_cast<double>(more.planned_bytes()) / static_cast<double>(few.planned_bytes());
  EXPECT_LT(ratio, 10);
  EXPECT_GT(ratio, 8);
  EXPECT_LT(compile(12).executable.steps.size(), 1'000);  // a short one is unrolled
  EXPECT_TRUE(Rolled(compile(12)).empty());
}

constexpr char kHalve[] = R"(
  block { name: "halve" input: "x" input: "t" input: "w"
    layer { name: "y" input: "$$x" input: "$$w" mul {} }
    layer { name: "size" input: "$$x" square {} }
    layer { name: "sum" input: "size" reduce_sum { $0 } }
    layer { name: "over" input: "sum" scale { offset: -1 } }
    layer { name: "go" input: "over" relu {} }
    output: "y" output: "go" }
  batch: 3
  input { name: "x" shape { dim: 1 } }
  input { name: "n" dtype: INT32 $1 }
  layer { name: "w" parameter { dim: 1 init { kind: CONSTANT value: 0.5 } } }
  layer { name: "l" input: "x" input: "w" $2 loop { body: "halve" index: "t" times: 40 $3
    carry { input: "x" output: "y" } collect { output: "y" } } }
  layer { name: "s" input: "l:1" reduce_sum { axis: 1 } }
  layer { name: "loss" input: "s" reduce_sum {} }
  objective: "loss" output: "l" output: "l:1")";

int64_t RoundsOf(const std::string& text, const std::map<std::string, Numbers>& feeds, bool training) {
  CompileOptions options = InDouble();
  options.training = training;
  options.loops = LoopRule::kRolled;
  auto session = MakeUnfed(text, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return -1;
  for (const auto& [name, values] : feeds) {
    if (!(*session)->Input(name).ok()) continue;  // nothing reads it
    EXPECT_TRUE((*session)->Feed(name, values).ok()) << name;
  }
  EXPECT_TRUE((*session)->Run().ok());
  const auto loops = Rolled((*session)->compiled());
  const int64_t rounds = loops.at("l")->counts().rounds;
  if (training) {
    EXPECT_EQ(loops.at("l/gradient")->counts().rounds, rounds);
  }
  return rounds;
}

// The round that does not count is computed, and the loop ends behind it.
TEST(RolledLoops, EndAtRunTime) {
  const std::map<std::string, Numbers> feeds = {{"x", {16, 2, 4}}, {"n", {5, 2, 7}}};
  const std::map<std::string, Numbers> one_count = {{"x", {16, 2, 4}}, {"n", {5}}};
  const std::string by_count = absl::Substitute(kHalve, "", "no_batch: true", "input: \"n\"", "counted: true");
  const std::string by_counts = absl::Substitute(kHalve, "", "", "input: \"n\"", "counted: true");
  const std::string by_condition = absl::Substitute(kHalve, "", "no_batch: true", "", "condition: \"go\"");
  const std::string by_conditions = absl::Substitute(kHalve, "axis: 1", "no_batch: true", "", "condition: \"go\"");
  for (const bool training : {false, true}) {
    SCOPED_TRACE(training);
    EXPECT_EQ(RoundsOf(by_count, one_count, training), 6);
    EXPECT_EQ(RoundsOf(by_counts, feeds, training), 8);
    // 256 + 4 + 16 shrinks to a quarter in each round: above 1 five times.
    EXPECT_EQ(RoundsOf(by_condition, one_count, training), 6);
    EXPECT_EQ(RoundsOf(by_conditions, one_count, training), 5);
  }
  CompileOptions options = InDouble({"x", "w"});
  for (const std::string& text : {by_count, by_counts, by_condition, by_conditions}) {
    const auto& fed = text == by_counts ? feeds : one_count;
    const std::vector<std::string> fetched = {"l", "l:1", "loss", "d(x)", "d(w)"};
    options.loops = LoopRule::kUnrolled;
    const auto truth = RunOnce(text, fed, fetched, options);
    options.loops = LoopRule::kRolled;
    EXPECT_EQ(RunOnce(text, fed, fetched, options), truth);
  }
}

TEST(RolledLoops, ALoopThatWouldGoOnGivesNan) {
  const std::string text = R"(
    block { name: "body" input: "x" layer { name: "y" input: "$x" scale { factor: 2 } } output: "y" output: "$x" }
    input { name: "x" no_batch: true }
    layer { name: "l" input: "x" loop { body: "body" times: 3 condition: "x" carry { input: "x" output: "y" } } }
    output: "l")";
  CompileOptions options{.training = false, .precision = DType::kFloat64, .loops = LoopRule::kRolled};
  EXPECT_THAT(RunOnce(text, {{"x", {1}}}, {"l"}, options)["l"], ElementsAre(IsNan()));
  EXPECT_THAT(RunOnce(text, {{"x", {0}}}, {"l"}, options)["l"], ElementsAre(0));
}

// Dropout draws the same numbers in each round, rolled or not, also in loops inside each other.
TEST(RolledLoops, RoundsDrawTheSameNumbers) {
  const std::string text = R"(
    block { name: "drop" input: "x" layer { name: "d" input: "$x" dropout { rate: 0.5 } } output: "d" output: "$x" }
    block { name: "outer" input: "x"
  layer { name: "in" input: "$x" loop { body: "drop" times: 3 carry { input: "x" output: "x" } collect { output: "d" } } }
  layer { name: "all" input: "in:1" reduce_sum { axis: 1 } }
  output: "all" output: "$x" }
    input { name: "x" shape { dim: 64 } }
    layer { name: "l" input: "x" loop { body: "outer" times: 2 carry { input: "x" output: "x" } collect { output: "all" } } }
    layer { name: "loss" input: "l:1" reduce_sum {} }
    objective: "loss" output: "l:1")";
  CompileOptions options = InDouble({"x"});
  options.loops = LoopRule::kUnrolled;
  const auto truth = RunOnce(text, {{"x", Numbers(64, 1)}}, {"l:1", "d(x)"}, options);
  options.loops = LoopRule::kRolled;
  EXPECT_EQ(RunOnce(text, {{"x", Numbers(64, 1)}}, {"l:1", "d(x)"}, options), truth);
  const Numbers& drawn = truth.at("l:1");
  EXPECT_NE(Numbers(drawn.begin(), drawn.begin() + 64), Numbers(drawn.begin() + 64, drawn.end()));
}

}  // namespace
}  // namespace snug::core::test
