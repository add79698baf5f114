// Branches of which only the body that is taken runs: the bits of those that run all bodies and choose, nothing spent
// on the others, and memory that all of them share.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/control/loop_report.h"
#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// How many rounds the bodies have run in all, by their names.
std::map<std::string, int64_t> RoundsRun(const Compiled& compiled) {
  std::map<std::string, int64_t> rounds;
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const RolledLoop* const loop = RolledLoopOf(compiled.kernels[static_cast<size_t>(id.index)]);
    if (loop != nullptr) rounds[compiled.graph.node(id).name] = loop->counts().rounds;
  }
  return rounds;
}

// Three bodies, one of which has weights, another dropout, and the third nothing but its input.
constexpr char kThreeBodies[] = R"(
  block { name: "layers" input: "x"
    layer { name: "fc1" input: "$x" dense { units: 32 } }
    layer { name: "a" input: "fc1" tanh {} }
    layer { name: "fc2" input: "a" dense { units: 16 } } }
  block { name: "noisy" input: "x"
    layer { name: "d" input: "$x" dropout { rate: 0.5 } }
    layer { name: "y" input: "d" square {} } }
  block { name: "same" input: "x" layer { name: "y" input: "$x" scale {} } output: "$x" }
  batch: 8
  input { name: "which" dtype: INT32 no_batch: true max_value: 4 }
  input { name: "x" shape { dim: 16 } }
  layer { name: "in" input: "x" dense { units: 16 } }
  layer { name: "y" input: "which" input: "in" branch { body: "layers" body: "noisy" body: "same" } }
  layer { name: "squares" input: "y" square {} }
  layer { name: "loss" input: "squares" reduce_mean {} }
  objective: "loss" output: "y")";

std::vector<Numbers> TrainTwice(CompileOptions options, double which, const std::vector<std::string>& fetched,
                                std::optional<ExecutorKind> engine = std::nullopt) {
  return TrainTwoSteps(kThreeBodies, std::move(options), fetched, engine, {{"which", {which}}});
}

TEST(TakenBody, HasTheBitsOfAChoiceAmongAll) {
  const std::vector<std::string> gradients = {"x", "in.weight", "y.0.fc1.weight", "y.0.fc2.weight", "y.0.fc2.bias"};
  std::vector<std::string> fetched = {"loss", "y", "y.0.fc1.weight"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const double which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    CompileOptions options{.gradients = gradients};
    options.fetch = {"y.0.fc1.weight"};
    options.loops = LoopRule::kUnrolled;
    const std::vector<Numbers> all = TrainTwice(options, which, fetched);
    options.loops = LoopRule::kRolled;
    EXPECT_EQ(TrainTwice(options, which, fetched, ExecutorKind::kSerial), all);
    EXPECT_EQ(TrainTwice(options, which, fetched, ExecutorKind::kReplay), all);
    options.memory.streams = 2;
    EXPECT_EQ(TrainTwice(options, which, fetched, ExecutorKind::kDynamic), all);
    options.memory.streams = 1;
    options.memory.strategy = std::string(kDynamicMemory);
    EXPECT_EQ(TrainTwice(options, which, fetched), all);
  }
}

TEST(TakenBody, RunsAlone) {
  CompileOptions options{.loops = LoopRule::kRolled};
  for (const int which : {0, 1, 2, 3}) {
    SCOPED_TRACE(which);
    auto session = MakeUnfed(kThreeBodies, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
    ASSERT_TRUE((*session)->Feed("which", {1.0 * which}).ok());
    const absl::Status run = (*session)->Run();
    ASSERT_TRUE(run.ok()) << run.message();
    std::map<std::string, int64_t> expected = {{"y/0", 0},          {"y/0/gradient", 0}, {"y/1", 0},
                                               {"y/1/gradient", 0}, {"y/2", 0},          {"y/2/gradient", 0}};
    if (which < 3) {
      expected[absl::StrCat("y/", which)] = 1;
      expected[absl::StrCat("y/", which, "/gradient")] = 1;
    }
    EXPECT_EQ(RoundsRun((*session)->compiled()), expected);
    EXPECT_THAT(LoopsText((*session)->compiled()),
                HasSubstr("body \"y/0\" of a branch: 3 nodes, which run if it is taken"));
  }
}

// The logarithm of a negative number is none, and neither it nor its slope gets out of a body that does not run.
TEST(TakenBody, NothingComesOutOfTheOthers) {
  const std::string text = R"(
    block { name: "logarithm" input: "x" input: "w" layer { name: "p" input: "$x" input: "$w" mul {} }
      layer { name: "y" input: "p" log {} } }
    block { name: "seven" input: "x" input: "w" layer { name: "y" parameter { dim: 1 init { kind: CONSTANT value: 7 } } } }
    input { name: "which" dtype: INT32 no_batch: true }
    input { name: "x" no_batch: true shape { dim: 1 } }
    layer { name: "w" parameter { dim: 1 init { kind: CONSTANT value: -2 } } }
    layer { name: "y" input: "which" input: "x" input: "w" branch { body: "logarithm" body: "seven" } }
    objective: "y")";
  CompileOptions options = InDouble({"x", "w", "y.1.y"});
  options.loops = LoopRule::kRolled;
  const std::vector<std::string> fetched = {"y", "d(x)", "d(w)", "d(y.1.y)"};
  auto found = RunOnce(text, {{"which", {1}}, {"x", {3}}}, fetched, options);
  EXPECT_THAT(found["y"], ElementsAre(7));
  EXPECT_THAT(found["d(x)"], ElementsAre(0));
  EXPECT_THAT(found["d(w)"], ElementsAre(0));
  EXPECT_THAT(found["d(y.1.y)"], ElementsAre(1));
  // The last body depends on nothing that has a gradient, and yet what the first has put in has one.
  found = RunOnce(text, {{"which", {0}}, {"x", {-3}}}, fetched, options);
  EXPECT_THAT(found["y"], ElementsAre(testing::DoubleNear(std::log(6), 1e-15)));
  EXPECT_THAT(found["d(x)"], ElementsAre(testing::DoubleNear(-1.0 / 3, 1e-15)));
  EXPECT_THAT(found["d(w)"], ElementsAre(-0.5));
  EXPECT_THAT(found["d(y.1.y)"], ElementsAre(0));
  found = RunOnce(text, {{"which", {5}}, {"x", {-3}}}, fetched, options);
  EXPECT_THAT(found["y"], ElementsAre(testing::IsNan()));
  EXPECT_THAT(found["d(x)"], ElementsAre(0));
}

// Two bodies that take turns need the memory of one.
TEST(TakenBody, BodiesShareMemory) {
  const std::string text = R"(
    block { name: "wide" input: "x"
      layer { name: "fc1" input: "$x" dense { units: 512 } }
      layer { name: "a" input: "fc1" tanh {} }
      layer { name: "y" input: "a" dense { units: 16 } } }
    batch: 32
    input { name: "which" dtype: INT32 no_batch: true max_value: 2 }
    input { name: "x" shape { dim: 16 } }
    layer { name: "y" input: "which" input: "x" branch { body: "wide" body: "wide" } }
    output: "y")";
  const auto session = MakeSession(text, {.training = false, .loops = LoopRule::kRolled});
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<int64_t> offsets;
  for (const Step& step : (*session)->compiled().executable.steps) {
    if (step.kernel->name != "rounds") continue;
    EXPECT_EQ(step.workspace.arena, Arena::kStep);
    offsets.push_back(step.workspace.offset);
  }
  ASSERT_EQ(offsets.size(), 2);
  EXPECT_EQ(offsets[0], offsets[1]);
}

// What is collected has one axis more than the gradient.
TEST(TakenBody, ParametersOfAsManyAxesAsThereCanBe) {
  const std::string text = R"(
    block { name: "mine" input: "x"
      layer { name: "w" parameter { dim: [1, 1, 1, 1, 1, 1, 1, 3] init { kind: CONSTANT value: 2 } } }
      layer { name: "y" input: "$x" input: "w" mul {} } }
    block { name: "other" input: "x" layer { name: "y" input: "$x" scale { factor: 3 } } }
    input { name: "which" dtype: INT32 no_batch: true max_value: 2 }
    input { name: "x" no_batch: true shape { dim: [1, 1, 1, 1, 1, 1, 1, 3] } }
    layer { name: "y" input: "which" input: "x" branch { body: "mine" body: "other" } }
    layer { name: "loss" input: "y" reduce_sum {} }
    objective: "loss")";
  CompileOptions options = InDouble({"y.0.w"});
  options.loops = LoopRule::kRolled;
  auto found = RunOnce(text, {{"which", {0}}, {"x", {1, 2, 4}}}, {"loss", "d(y.0.w)"}, options);
  EXPECT_THAT(found["loss"], ElementsAre(14));
  EXPECT_THAT(found["d(y.0.w)"], ElementsAre(1, 2, 4));
  found = RunOnce(text, {{"which", {1}}, {"x", {1, 2, 4}}}, {"loss", "d(y.0.w)"}, options);
  EXPECT_THAT(found["d(y.0.w)"], ElementsAre(0, 0, 0));
}

std::string Wide(int units) {
  return absl::StrCat(R"(
    block { name: "wide" input: "x" layer { name: "fc" input: "$x" dense { units: )",
                      units, R"( } } }
    batch: 32
    input { name: "which" dtype: INT32 no_batch: true max_value: 2 }
    input { name: "x" shape { dim: 256 } }
    layer { name: "y" input: "which" input: "x" branch { body: "wide" body: "wide" } }
    output: "y")");
}

TEST(TakenBody, SmallOnesAllRunUnlessAskedFor) {
  const auto rolled = [](const std::string& text, LoopRule rule) {
    const auto session = MakeSession(text, {.training = false, .loops = rule});
    EXPECT_TRUE(session.ok()) << session.status().message();
    return RoundsRun((*session)->compiled());
  };
  EXPECT_THAT(rolled(Wide(8), LoopRule::kBySize), IsEmpty());
  EXPECT_THAT(rolled(Wide(8), LoopRule::kRolled), Not(IsEmpty()));
  EXPECT_THAT(rolled(Wide(1024), LoopRule::kBySize), Not(IsEmpty()));
  EXPECT_THAT(rolled(Wide(1024), LoopRule::kUnrolled), IsEmpty());
  // A limit for what loops keep of their rounds is none for what a body keeps, which cannot be computed anew.
  const auto session = MakeSession(kThreeBodies, {.loops = LoopRule::kRolled, .stash_limit = 1});
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_THAT(RoundsRun((*session)->compiled()), IsEmpty());
}

// The round decides which body it runs.
TEST(TakenBody, InsideOfALoop) {
  const std::string text = R"(
    block { name: "double" input: "x" layer { name: "y" input: "$x" scale { factor: 2 } } }
    block { name: "squared" input: "x" layer { name: "y" input: "$x" input: "$x" mul {} } }
    block { name: "round" input: "x" input: "which"
      layer { name: "b" input: "$which" input: "$x" branch { body: "double" body: "squared" } } output: "b" }
    input { name: "x" no_batch: true shape { dim: 2 } }
    input { name: "which" dtype: INT32 no_batch: true shape { dim: 4 } max_value: 2 }
    layer { name: "l" input: "x" input: "which" loop { body: "round" carry { input: "x" output: "b" }
      scan { input: "which" axis: 0 } } }
    layer { name: "loss" input: "l" reduce_sum {} }
    objective: "loss" output: "l")";
  std::vector<std::map<std::string, Numbers>> found;
  for (const LoopRule rule : {LoopRule::kUnrolled, LoopRule::kRolled}) {
    CompileOptions options = InDouble({"x"});
    options.loops = rule;
    found.push_back(RunOnce(text, {{"x", {1.5, -0.5}}, {"which", {0, 1, 1, 0}}}, {"l", "d(x)"}, options));
  }
  EXPECT_THAT(found[1]["l"], ElementsAre(2 * 81, 2));  // 2 ((2 x)^2)^2
  EXPECT_THAT(found[1]["d(x)"], ElementsAre(128 * 1.5 * 1.5 * 1.5, 128 * -0.125));
  EXPECT_EQ(found[0], found[1]);
}

}  // namespace
}  // namespace snug::core::test
