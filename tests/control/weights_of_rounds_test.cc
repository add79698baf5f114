// What all rounds of a loop read in another layout, above all weights in panels: it is made once, before the loop,
// whether rounds are a straight line, a body that is compiled once, loops in loops, or computed anew, with the same
// bits.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

// A recurrent layer whose weights are read by every round, forward and backward.
constexpr char kCell[] = R"(
    block { name: "cell" input: "x" input: "h"
      layer { name: "sum" input: "$h" input: "$x" add {} }
      layer { name: "product" input: "sum" dense { units: 48 } }
      layer { name: "h_next" input: "product" tanh {} }
      output: "h_next" }
    batch: 5
    input { name: "h" shape { dim: 48 } })";

std::string OneLoop() {
  return std::string(kCell) + R"(
    input { name: "x" no_batch: true shape { dim: [13, 5, 48] } }
    layer { name: "rnn" input: "x" input: "h" loop { body: "cell" scan { input: "x" axis: 0 }
      carry { input: "h" output: "h_next" } collect { output: "h_next" axis: 0 } } }
    layer { name: "squares" input: "rnn:1" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")";
}

// Its gradient has an input for how many rounds there were, behind those that feed its body.
std::string CountedLoop() {
  return std::string(kCell) + R"(
    input { name: "x" no_batch: true shape { dim: [13, 5, 48] } }
    input { name: "count" dtype: INT32 no_batch: true max_value: 14 }
    layer { name: "rnn" input: "x" input: "h" input: "count" loop { body: "cell" times: 13 counted: true
      scan { input: "x" axis: 0 } carry { input: "h" output: "h_next" } collect { output: "h_next" axis: 0 } } }
    layer { name: "squares" input: "rnn:1" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")";
}

// The inner loop reads the weight by way of the outer one, which also reads it by itself.
std::string LoopInLoop() {
  return std::string(kCell) + R"(
    block { name: "row" input: "xs" input: "h"
      layer { name: "inner" input: "$xs" input: "$h" loop { body: "cell" scan { input: "x" axis: 0 }
        carry { input: "h" output: "h_next" } } }
      layer { name: "again" input: "inner" dense { units: 48 } param { name: "weight" tie: "outer.inner.product.weight" } }
      output: "again" }
    input { name: "x" no_batch: true shape { dim: [3, 4, 5, 48] } }
    layer { name: "outer" input: "x" input: "h" loop { body: "row" scan { input: "xs" axis: 0 }
      carry { input: "h" output: "again" } } }
    layer { name: "squares" input: "outer" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")";
}

// A branch whose bodies have loops, and one that has none.
std::string LoopInBranch() {
  return std::string(kCell) + R"(
    block { name: "many" input: "x" input: "h"
      layer { name: "rnn" input: "$x" input: "$h" loop { body: "cell" scan { input: "x" axis: 0 }
        carry { input: "h" output: "h_next" } } }
      layer { name: "y" input: "rnn" scale {} }
      output: "y" }
    block { name: "none" input: "x" input: "h"
      layer { name: "y" input: "$h" dense { units: 48 } }
      output: "y" }
    input { name: "x" no_batch: true shape { dim: [6, 5, 48] } }
    input { name: "which" dtype: INT32 no_batch: true max_value: 2 }
    layer { name: "taken" input: "which" input: "x" input: "h" branch { body: "many" body: "none" } }
    layer { name: "squares" input: "taken" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")";
}

absl::StatusOr<Compiled> CompileText(const std::string& text, const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  if (!loaded.ok()) return loaded.status();
  return Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
}

// How often each kernel serves products, in the bodies of rolled loops and in straight lines; "reorder" counts the
// values in other layouts that are made.
void CountKernels(const Graph& graph, const std::vector<KernelChoice>& kernels, const std::string& where,
                  std::map<std::string, int>& counts) {
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    const KernelChoice& choice = kernels[static_cast<size_t>(id.index)];
    if (const RolledLoop* const loop = RolledLoopOf(choice)) {
      CountKernels(loop->body().graph, loop->body().kernels, where + "body/", counts);
    } else if (node.op == "reorder") {
      ++counts[where + "reorder"];
    } else if (node.op == "dense" || node.op == "dense_fused" || node.op == "dense_grad_input") {
      ++counts[where + node.op + " " + choice.Name()];
    }
  }
}

std::map<std::string, int> Counts(const std::string& text, LoopRule rule) {
  std::map<std::string, int> counts;
  const absl::StatusOr<Compiled> compiled = CompileText(text, {.loops = rule});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  if (compiled.ok()) CountKernels(compiled->graph, compiled->kernels, "", counts);
  return counts;
}

using Expected = std::map<std::string, int>;

TEST(RoundWeights, ArePackedOnceForAllRounds) {
  // Forward, and transposed for what flows back. The first round hands nothing back, as no gradient of h is asked for.
  EXPECT_EQ(Counts(OneLoop(), LoopRule::kUnrolled),
            Expected({{"dense_fused panels", 13}, {"dense_grad_input panels", 12}, {"reorder", 2}}));
  EXPECT_EQ(Counts(OneLoop(), LoopRule::kRolled),
            Expected({{"body/dense_fused panels", 1}, {"body/dense_grad_input panels", 1}, {"reorder", 2}}));
}

TEST(RoundWeights, ArePackedBeforeTheOutermostLoop) {
  for (const LoopRule rule : {LoopRule::kUnrolled, LoopRule::kRolled}) {
    for (const auto& [what, count] : Counts(LoopInLoop(), rule)) {
      if (what == "reorder") {
        EXPECT_EQ(count, 2);
      } else {
        EXPECT_TRUE(what.find(" panels") != std::string::npos) << what << " " << LoopRuleName(rule);
      }
    }
  }
}

// A single row is multiplied in the time of reading the weight.
TEST(RoundWeights, AreReadAsTheyAreByASingleRow) {
  const std::string text = absl::StrReplaceAll(OneLoop(), {{"batch: 5", "batch: 1"}, {"[13, 5, 48]", "[13, 1, 48]"}});
  for (const LoopRule rule : {LoopRule::kUnrolled, LoopRule::kRolled}) {
    for (const auto& [what, count] : Counts(text, rule)) {
      EXPECT_TRUE(what.find(" panels") == std::string::npos && what != "reorder") << what;
    }
  }
}

// So large a weight is packed block by block, in each round: a copy of it is not kept.
TEST(RoundWeights, AreNotCopiedWhereTheyAreLarge) {
  const std::string text = absl::StrReplaceAll(OneLoop(), {{"units: 48", "units: 1100"},
                                                           {"dim: 48", "dim: 1100"},
                                                           {"batch: 5", "batch: 30"},
                                                           {"[13, 5, 48]", "[13, 30, 1100]"}});
  EXPECT_EQ(Counts(text, LoopRule::kUnrolled),
            Expected({{"dense_fused panels blocks", 13}, {"dense_grad_input panels blocks", 12}}));
  EXPECT_EQ(Counts(text, LoopRule::kRolled),
            Expected({{"body/dense_fused panels blocks", 1}, {"body/dense_grad_input panels blocks", 1}}));
}

TEST(RoundWeights, ArePackedByTheBranchThatIsTaken) {
  const std::map<std::string, int> counts = Counts(LoopInBranch(), LoopRule::kRolled);
  EXPECT_FALSE(counts.contains("reorder"));
  EXPECT_TRUE(counts.contains("body/reorder"));
}

TEST(RoundWeights, AreReadAsTheyAreInDoubleAndByPlainKernels) {
  for (const LoopRule rule : {LoopRule::kUnrolled, LoopRule::kRolled}) {
    for (CompileOptions options :
         {CompileOptions{.precision = DType::kFloat64}, CompileOptions{.plain_kernels = true}}) {
      options.loops = rule;
      std::map<std::string, int> counts;
      const absl::StatusOr<Compiled> compiled = CompileText(OneLoop(), options);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      CountKernels(compiled->graph, compiled->kernels, "", counts);
      for (const auto& [what, count] : counts) EXPECT_TRUE(what.find(" plain") != std::string::npos) << what;
    }
  }
}

// Losses and gradients of two steps.
std::vector<Numbers> Train(const std::string& text, const std::vector<std::string>& gradients, CompileOptions options,
                           std::optional<ExecutorKind> engine = std::nullopt) {
  options.gradients = gradients;
  std::vector<std::string> fetched = {"loss"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  return TrainTwoSteps(text, std::move(options), fetched, engine);
}

TEST(RoundWeights, HaveTheBitsOfAStraightLine) {
  const std::map<std::string, std::vector<std::string>> texts = {
      {OneLoop(), {"x", "h", "rnn.product.weight"}},
      {CountedLoop(), {"x", "h", "rnn.product.weight"}},
      {LoopInLoop(), {"x", "h", "outer.inner.product.weight"}},
      {LoopInBranch(), {"x", "h"}}};
  for (const auto& [text, gradients] : texts) {
    SCOPED_TRACE(text);
    CompileOptions options;
    options.loops = LoopRule::kUnrolled;
    const std::vector<Numbers> truth = Train(text, gradients, options, ExecutorKind::kSerial);
    for (const int threads : {1, 2}) {
      for (const LoopRule rule : {LoopRule::kUnrolled, LoopRule::kRolled}) {
        options.loops = rule;
        options.threads = threads;
        EXPECT_EQ(Train(text, gradients, options, ExecutorKind::kSerial), truth);
        options.memory.streams = 2;
        EXPECT_EQ(Train(text, gradients, options, ExecutorKind::kReplay), truth);
        EXPECT_EQ(Train(text, gradients, options, ExecutorKind::kDynamic), truth);
        options.memory.streams = 1;
      }
    }
  }
}

// Chunks of rounds pack before all of them, too; sums over rounds are other ones, of which the first step's weights
// show nothing but the rounding.
TEST(RoundWeights, HaveTheSameBitsInRoundsThatAreComputedAnew) {
  CompileOptions options;
  options.loops = LoopRule::kRolled;
  const std::vector<Numbers> kept = Train(OneLoop(), {"x", "h"}, options);
  options.recompute_rounds = 4;
  const std::vector<Numbers> anew = Train(OneLoop(), {"x", "h"}, options);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(anew[i], kept[i]) << i;
  std::map<std::string, int> counts;
  const absl::StatusOr<Compiled> compiled = CompileText(OneLoop(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  CountKernels(compiled->graph, compiled->kernels, "", counts);
  EXPECT_EQ(counts["reorder"], 2);
  EXPECT_FALSE(counts.contains("body/reorder") || counts.contains("body/body/reorder"));
}

// A program without gradients, and what a graph with a loop looks like after its kernels are chosen.
TEST(RoundWeights, AreInputsOfTheLoopThatReadsThem) {
  const absl::StatusOr<Compiled> compiled = CompileText(OneLoop(), {.training = false, .loops = LoopRule::kRolled});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const NodeId id : compiled->graph.ProgramOrder()) {
    const Node& node = compiled->graph.node(id);
    if (node.op != "loop") continue;
    const Graph& body = *node.subgraphs[0];
    ASSERT_GE(node.inputs.size(), body.inputs().size());
    int packed = 0;
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      const ValueType& inside = body.type(body.inputs()[i]);
      if (inside.layout.kind != Layout::Kind::kPacked) continue;
      EXPECT_EQ(compiled->graph.type(node.inputs[i]), inside);
      ++packed;
    }
    EXPECT_EQ(packed, 1);
    return;
  }
  FAIL() << "there is no loop";
}

}  // namespace
}  // namespace snug::core::test
