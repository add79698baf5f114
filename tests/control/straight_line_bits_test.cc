// Where passes find more in the straight line of a loop's rounds than in its body, both have the same bits all the
// same.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

Numbers Waves(int count) {
  Numbers numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(std::sin(3.7 * i + 0.3));
  return numbers;
}

// The gradient of x has eleven terms, of which the loop makes three: in a straight line here and there, in another
// sequence than that of its outputs.
TEST(StraightLine, AddsUpLongSumsInTheSequenceOfTheLoop) {
  std::string layers, last = "l";
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&layers, " layer { name: \"m", i, "\" input: \"", last, "\" input: \"x\" mul {} }");
    absl::StrAppend(&layers, " layer { name: \"t", i, "\" input: \"m", i, "\" tanh {} }");
    last = absl::StrCat("t", i);
  }
  const std::string text = absl::StrCat(R"(
      block { name: "body" input: "a" input: "b" input: "c"
        layer { name: "product" input: "$a" input: "$b" mul {} }
        layer { name: "more" input: "$c" sin {} }
        layer { name: "sum" input: "product" input: "more" add {} }
        layer { name: "y" input: "sum" tanh {} }
        output: "y" output: "$a" }
      batch: 3
      input { name: "x" shape { dim: 7 } }
      layer { name: "l" input: "x" input: "x" input: "x" loop { body: "body" times: 4
        carry { input: "a" output: "y" } carry { input: "b" output: "a" } } })",
                                        layers, R"(
      layer { name: "loss" input: "t7" reduce_mean {} }
      objective: "loss")");
  for (const bool plain : {true, false}) {
    RunBothWays(text, {{"x", Waves(21)}}, {"loss", "d(x)"}, {.plain_kernels = plain, .gradients = {"x"}});
  }
}

// What a loop collects is put side by side once, however often a node reads it; so do its gradients.
TEST(StraightLine, MakesWholeWhatANodeReadsTwice) {
  const std::string text = R"(
      block { name: "cell" input: "h" input: "row"
        layer { name: "twice" input: "$row" input: "$row" add {} }
        layer { name: "sum" input: "twice" input: "$h" add {} }
        layer { name: "next" input: "sum" tanh {} }
        output: "next" }
      batch: 2
      input { name: "x" shape { dim: [4, 6] } }
      input { name: "h" shape { dim: 6 } }
      layer { name: "rnn" input: "h" input: "x" loop { body: "cell"
        carry { input: "h" output: "next" } scan { input: "row" } collect { output: "next" } } }
      layer { name: "attention" input: ["rnn:1", "rnn:1", "rnn:1"] attention { heads: 2 } }
      layer { name: "product" input: "rnn:1" input: "rnn:1" mul {} }
      layer { name: "both" input: "attention" input: "product" add {} }
      layer { name: "loss" input: "both" reduce_mean {} }
      objective: "loss")";
  RunBothWays(text, {{"x", Waves(48)}, {"h", Waves(12)}}, {"loss", "d(x)", "d(h)"}, {.gradients = {"x", "h"}});
}

int CountNodes(const std::string& text, const CompileOptions& options, const std::string& op) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  const absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  int count = 0;
  for (const NodeId id : compiled->graph.ProgramOrder()) count += compiled->graph.node(id).op == op ? 1 : 0;
  return count;
}

// Nobody reads what the last round hands on, so that there the activation is all that reads the layer, and is fused.
TEST(StraightLine, HasTheBitsOfTheBodyWhereTheLastRoundIsFused) {
  const std::string dense = R"(
      block { name: "cell" input: "y" input: "t"
        layer { name: "linear" input: "$t" dense { units: 48 } }
        layer { name: "left" input: "linear" ACTIVATION {} }
        layer { name: "handed" input: "linear" sin {} }
        layer { name: "sum" input: "$y" input: "left" add {} }
        output: "sum" output: "handed" }
      batch: 5
      input { name: "y" shape { dim: 48 } }
      input { name: "t" shape { dim: 48 } }
      layer { name: "l" input: "y" input: "t" loop { body: "cell" times: 3 carry { input: "y" output: "sum" }
        carry { input: "t" output: "handed" } } }
      layer { name: "squares" input: "l" square {} }
      layer { name: "loss" input: "squares" reduce_mean {} }
      objective: "loss")";
  const std::string conv = absl::StrReplaceAll(
      dense, {{"dense { units: 48 }", "conv { filters: 8 kernel: 3 pad: 1 }"}, {"dim: 48", "dim: [8, 6, 6]"}});
  for (const auto& [layer, network] : std::map<std::string, std::string>{{"conv", conv}, {"dense", dense}}) {
    for (const char* activation : {"relu", "relu6", "sigmoid", "tanh"}) {
      const std::string text = absl::StrReplaceAll(network, {{"ACTIVATION", activation}});
      const Numbers wave = Waves(layer == "conv" ? 5 * 8 * 36 : 5 * 48);
      for (const bool plain : {true, false}) {
        SCOPED_TRACE(absl::StrCat(layer, " ", activation, " ", plain));
        CompileOptions options{.training = false, .plain_kernels = plain};
        options.loops = LoopRule::kUnrolled;
        EXPECT_EQ(CountNodes(text, options, layer + "_fused"), 1);
        RunBothWays(text, {{"y", wave}, {"t", wave}}, {"loss", "l"}, options);
      }
    }
  }
}

}  // namespace
}  // namespace snug::core::test
