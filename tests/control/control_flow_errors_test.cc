// Mistakes in loops and branches: each is refused with its place, with what was expected and what was found.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/compile/control/loop_report.h"
#include "engine/compile/import/import.h"
#include "engine/compile/pipeline.h"
#include "proto/network_writer.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Lines 1 to 7: inputs x [3], y [4], s [5, 3], t [6, 3], n and m, and a body.
constexpr char kHead[] = R"(batch: 2 input { name: "x" shape { dim: 3 } } input { name: "y" shape { dim: 4 } }
input { name: "s" shape { dim: [5, 3] } } input { name: "t" shape { dim: [6, 3] } }
input { name: "n" dtype: INT32 no_batch: true } input { name: "m" dtype: INT32 }
block { name: "body" input: "a" input: "b"
  layer { name: "fc" input: "$a" dense { units: 3 } }
  layer { name: "next" input: "fc" input: "$b" add {} }
  output: "next" output: "$b" }
)";

// What the importer, or the loader before it, says.
std::string ErrorOf(const std::string& rest, bool training = true) {
  const absl::StatusOr<LoadedNetwork> loaded =
      LoadNetworkText(kHead + rest + "\nlayer { name: \"end\" input: \"l\" reduce_sum {} } objective: \"end\"", "net");
  if (!loaded.ok()) return std::string(loaded.status().message());
  return std::string(
      Import(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.training = training}).status().message());
}

// What the whole compile says, or what it says of the loops if it goes well.
std::string SaidOfCompile(const std::string& rest, const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded =
      LoadNetworkText(kHead + rest + "\nlayer { name: \"end\" input: \"l\" reduce_sum {} } objective: \"end\"", "net");
  if (!loaded.ok()) return std::string(loaded.status().message());
  const absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  return compiled.ok() ? LoopsText(*compiled) : std::string(compiled.status().message());
}

// The loop's options stand on line 9.
std::string ErrorOfLoop(const std::string& inputs, const std::string& options) {
  return ErrorOf("layer { name: \"l\" " + inputs + " loop {\n" + options + " } }");
}
constexpr char kTwo[] = R"(input: "x" input: "x")";
constexpr char kCarry[] = R"(carry { input: "a" output: "next" })";

std::string Loop(const std::string& options) { return ErrorOfLoop(kTwo, "body: \"body\" " + options); }

TEST(ControlFlowErrors, AGoodLoopHasNone) {
  EXPECT_EQ(Loop(std::string("times: 3 ") + kCarry), "");
  EXPECT_EQ(ErrorOf(R"(layer { name: "l" input: "n" input: "x" input: "x" branch { body: "body" body: "body" } })"),
            "");
}

TEST(ControlFlowErrors, ABodyThatIsNoBlock) {
  EXPECT_EQ(ErrorOfLoop(kTwo, R"(body: "bodi" times: 3)"),
            "net:9:7: body: there is no block \"bodi\"; did you mean \"body\"?");
  EXPECT_EQ(ErrorOfLoop(kTwo, "times: 3"), "net:8:1: layer \"l\" (loop): expected body: \"...\", the name of a block");
}

TEST(ControlFlowErrors, ABodyWithArguments) {
  EXPECT_EQ(
      ErrorOf("block { name: \"wide\" arg: \"units\" layer { name: \"y\" input: \"$input\" dense { units: $units } } "
              "}\nlayer { name: \"l\" input: \"x\" loop { body: \"wide\" times: 2 } }"),
      "net:9:43: block \"wide\" needs its argument \"units\", which the body of a loop or branch is not given: use "
      "it in a block without arguments");
}

TEST(ControlFlowErrors, RoundsThatAreNone) {
  EXPECT_EQ(Loop("times: 0 carry { input: \"a\" output: \"next\" }"),
            "net:9:21: layer \"l\" (loop): times: expected 1 to 2147483647, found 0");
  EXPECT_EQ(
      Loop(kCarry),
      "net:8:1: layer \"l\" (loop): expected times, how many rounds there are or at most are, as nothing is scanned");
  EXPECT_THAT(Loop(std::string("times: 1000000000000 ") + kCarry),
              EndsWith("times: expected 1 to 2147483647, found 1000000000000"));
}

TEST(ControlFlowErrors, NamesThatTheBodyDoesNotHave) {
  EXPECT_EQ(Loop("times: 3\ncarry { input: \"A\" output: \"next\" }"),
            "net:10:1: layer \"l\" (loop): carry: the body \"body\" has no input \"A\"; did you mean \"a\"?");
  EXPECT_THAT(Loop("times: 3\ncarry { input: \"a\" output: \"nxt\" }"),
              HasSubstr("carry: the body \"body\" has no output \"nxt\"; did you mean \"next\"?"));
  EXPECT_THAT(Loop("times: 3 collect { output: \"q\" }"), HasSubstr("collect: the body \"body\" has no output \"q\""));
  EXPECT_THAT(Loop("times: 3 index: \"i\""), HasSubstr("index: the body \"body\" has no input \"i\""));
  EXPECT_THAT(Loop(std::string("times: 3 condition: \"go\" ") + kCarry),
              HasSubstr("condition: the body \"body\" has no output \"go\""));
}

TEST(ControlFlowErrors, AnInputWithTwoParts) {
  EXPECT_EQ(Loop(std::string("times: 3 ") + kCarry + "\n carry { input: \"a\" output: \"b\" }"),
            "net:10:2: layer \"l\" (loop): carry: the body's input \"a\" has a part already");
  EXPECT_THAT(Loop(std::string(kCarry) + " scan { input: \"a\" }"),
              HasSubstr("scan: the body's input \"a\" has a part"));
}

TEST(ControlFlowErrors, NothingComesOut) {
  EXPECT_EQ(Loop("times: 3"),
            "net:8:1: layer \"l\" (loop): puts nothing out: name a carry, as carry { input: \"h\" "
            "output: \"h_next\" }, or collect an output");
}

TEST(ControlFlowErrors, InputsOfAnotherNumber) {
  EXPECT_EQ(ErrorOfLoop("input: \"x\"", std::string("body: \"body\" times: 3 ") + kCarry),
            "net:8:1: layer \"l\" (loop): expected 2 inputs for the body \"body\" (a, b), found 1");
  EXPECT_EQ(ErrorOfLoop(kTwo, std::string("body: \"body\" times: 3 counted: true ") + kCarry),
            "net:8:1: layer \"l\" (loop): expected 3 inputs for the body \"body\" (a, b, the count), found 2");
}

TEST(ControlFlowErrors, ACarryOfAnotherShape) {
  EXPECT_EQ(
      ErrorOfLoop("input: \"y\" input: \"x\"", std::string("body: \"body\" times: 3\n") + kCarry),
      "net:10:1: layer \"l\" (loop): carry: \"a\" begins as float32[2, 4], but the body's \"next\" is float32[2, 3]: "
      "a carry keeps its shape");
}

TEST(ControlFlowErrors, ACarryOfAnotherDtype) {
  EXPECT_EQ(
      ErrorOf(R"(block { name: "cut" layer { name: "y" input: "$input" cast { dtype: INT32 } } }
layer { name: "l" input: "x" loop { body: "cut" times: 3
  carry { input: "input" output: "y" } } })"),
      "net:10:3: layer \"l\" (loop): carry: \"input\" begins as float32[2, 3], but the body's \"y\" is int32[2, 3]: a "
      "carry keeps its dtype; a cast layer converts");
}

TEST(ControlFlowErrors, ScansOfUnequalLengths) {
  EXPECT_EQ(ErrorOfLoop("input: \"s\" input: \"t\"",
                        "body: \"body\" scan { input: \"a\" }\nscan { input: \"b\" } collect { output: \"next\" }"),
            "net:10:1: layer \"l\" (loop): scan: \"b\" has 6 slices along axis 1, but \"a\" has 5: what is scanned "
            "together has as many");
  EXPECT_EQ(
      ErrorOfLoop("input: \"s\" input: \"x\"",
                  "body: \"body\" scan { input: \"a\" } collect { output: \"next\" }\ntimes: 4"),
      "net:10:8: layer \"l\" (loop): times: 4 rounds, but \"a\" has 5 slices: leave times out, or slice it first");
  EXPECT_EQ(ErrorOfLoop("input: \"s\" input: \"x\"",
                        "body: \"body\" scan { input: \"a\" axis: 3 } collect { output: \"next\" }"),
            "net:9:14: layer \"l\" (loop): scan: axis 3: \"a\" is scanned along one of 3 axes, of float32[2, 5, 3]");
}

TEST(ControlFlowErrors, CollectedAlongAnAxisThatThereIsNot) {
  EXPECT_THAT(Loop("times: 3 collect { output: \"next\" axis: 4 }"),
              HasSubstr("collect: axis 4: \"next\" of float32[2, 3] is collected along axis 0 to 2"));
}

TEST(ControlFlowErrors, CountsAndConditions) {
  EXPECT_EQ(ErrorOfLoop(std::string(kTwo) + "\n input: \"x\"",
                        std::string("body: \"body\" times: 3 counted: true ") + kCarry),
            "net:9:9: layer \"l\" (loop): input 2: the count: expected one integer, or one for each sample, found "
            "float32[2, 3]");
  EXPECT_THAT(Loop(std::string("times: 3 condition: \"b\" ") + kCarry),
              HasSubstr("condition: expected one number, or one for each sample, found float32[2, 3]"));
  EXPECT_THAT(ErrorOf(R"(block { name: "go" input: "a" layer { name: "s" input: "$a" reduce_sum { axis: 1 } }
    layer { name: "t" input: "$a" transpose { axes: [1, 0] } } output: "t" output: "s" output: "$a" }
    layer { name: "l" input: "x" loop { body: "go" times: 3 condition: "s" carry { input: "a" output: "a" }
      collect { output: "t" } } })"),
              HasSubstr("collect: \"t\" is float32[3, 2], but the condition has 2 numbers: expected as many rows"));
  EXPECT_THAT(ErrorOfLoop(R"(input: "x" input: "x" input: "m")",
                          std::string("body: \"body\" times: 3 counted: true condition: \"go\" ") + kCarry),
              HasSubstr("condition: the body \"body\" has no output \"go\""));
}

TEST(ControlFlowErrors, ACapturedVariableThatTheBodyUpdates) {
  const std::string text = R"(block { name: "norm" input: "a" layer { name: "bn" input: "$a" batch_norm {} } }
layer { name: "l" input: "x" loop { body: "norm" times: 3 carry { input: "a" output: "bn" } } })";
  EXPECT_EQ(
      ErrorOf(text),
      "net:8:33: layer \"bn\" (batch_norm): updates \"l.bn.running_mean\" in training, which every round and branch "
      "reads as it was before the step: put the layer outside, or take one without running statistics, such as "
      "group_norm (in \"norm\", run by layer \"l\" at net:9:1) (in block \"norm\" used at net:9:43)");
  EXPECT_EQ(ErrorOf(text, /*training=*/false), "");
}

// A count for each of two samples, beside a condition for all of them, and what is no sample's.
constexpr char kOfAll[] = R"(block { name: "go" input: "a" layer { name: "s" input: "$a" reduce_sum {} }
  layer { name: "y" input: "$a" tanh {} } output: "y" output: "s" }
input { name: "w" no_batch: true shape { dim: 3 } }
)";

TEST(ControlFlowErrors, CountsOfOtherShapes) {
  const std::string loop = R"( input: "m" loop { body: "go" times: 3 counted: true carry { input: "a" output: "y" })";
  EXPECT_EQ(ErrorOf(absl::StrCat(kOfAll, "layer { name: \"l\" input: \"x\"", loop, "\n condition: \"s\" } }")),
            "net:12:13: layer \"l\" (loop): condition: expected the shape of the count, [2], found []");
  EXPECT_EQ(ErrorOf(absl::StrCat(kOfAll, "layer { name: \"l\" input: \"w\"", loop, " } }")),
            "net:11:82: layer \"l\" (loop): carry: \"y\" is float32[3], but the count has 2 numbers: expected as many "
            "rows");
}

TEST(ControlFlowErrors, SeveralConditions) {
  EXPECT_EQ(Loop(std::string("times: 3 condition: \"next\"\n condition: \"b\" ") + kCarry),
            "net:10:2: \"condition\" is given twice: first at line 9, column 34");
}

TEST(ControlFlowErrors, TooManyRoundsToBeUnrolled) {
  CompileOptions options{.loops = LoopRule::kUnrolled};
  const std::string loop =
      R"(layer { name: "l" input: "x" input: "x" loop { body: "body" carry { input: "a" output: "next" }
    times: 2000000000 } })";
  EXPECT_EQ(
      SaidOfCompile(loop, options),
      "net:8:1: layer \"l\" (loop): 2000000000 rounds of 2 nodes each are too many to be unrolled: at most 2000000 "
      "nodes in all are possible; a loop that stays one node, as none does on a GPU, may have any number");
  options.loops = LoopRule::kBySize;
  EXPECT_THAT(SaidOfCompile(loop, options), HasSubstr("rolled"));
}

// Rounds that cannot be computed anew, and why.
TEST(ControlFlowErrors, RoundsThatAreNotComputedAnew) {
  const CompileOptions options{.recompute_rounds = 2};
  const auto said = [&](const std::string& body, const std::string& inputs, const std::string& loop) {
    return SaidOfCompile(
        absl::StrCat("block { name: \"b\" input: \"a\" ", body, " output: \"y\" }\nlayer { name: \"l\" ", inputs,
                     " loop { body: \"b\" ", loop, " } }"),
        options);
  };
  constexpr char kDropout[] = R"(layer { name: "y" input: "$a" dropout { rate: 0.5 } })";
  constexpr char kTanh[] = R"(layer { name: "y" input: "$a" tanh {} })";
  constexpr char kNumbered[] = R"(input: "t" layer { name: "n" input: "$t" cast {} }
    layer { name: "y" input: "$a" input: "n" mul {} })";
  constexpr char kCarried[] = R"(carry { input: "a" output: "y" })";
  const std::string not_anew = "gradients compute no rounds anew: ";
  EXPECT_THAT(said(kDropout, "input: \"x\"", absl::StrCat("times: 5 ", kCarried)),
              HasSubstr(not_anew + "its rounds draw random numbers\n"));
  EXPECT_THAT(said(kNumbered, "input: \"x\"", absl::StrCat("times: 5 index: \"t\" ", kCarried)),
              HasSubstr(not_anew + "its rounds read their number\n"));
  EXPECT_THAT(said(kTanh, "input: \"x\" input: \"m\"", absl::StrCat("times: 5 counted: true ", kCarried)),
              HasSubstr(not_anew + "it may end early\n"));
  EXPECT_THAT(said(kTanh, "input: \"s\"", "scan { input: \"a\" } collect { output: \"y\" }"),
              HasSubstr(not_anew + "it carries nothing, so that its rounds could run in any sequence\n"));
  EXPECT_THAT(said(kTanh, "input: \"x\"", absl::StrCat("times: 1 ", kCarried)),
              HasSubstr(not_anew + "it has one round only\n"));
  EXPECT_THAT(said(kTanh, "input: \"x\"", absl::StrCat("times: 5 ", kCarried)),
              HasSubstr("gradients compute 2 rounds at a time anew\n"));
}

TEST(ControlFlowErrors, ACapturedVariableThatABranchUpdates) {
  const std::string text = R"(block { name: "norm" input: "a" layer { name: "bn" input: "$a" batch_norm {} } }
block { name: "plain" input: "a" layer { name: "y" input: "$a" relu {} } }
layer { name: "l" input: "n" input: "x" branch { body: "plain" body: "norm" } })";
  EXPECT_EQ(
      ErrorOf(text),
      "net:8:33: layer \"bn\" (batch_norm): updates \"l.1.bn.running_mean\" in training, which every round and branch "
      "reads as it was before the step: put the layer outside, or take one without running statistics, such as "
      "group_norm (in \"norm\", run by layer \"l\" at net:10:1) (in block \"norm\" used at net:10:70)");
  EXPECT_EQ(ErrorOf(text, /*training=*/false), "");
}

TEST(ControlFlowErrors, AnOpWithoutAGradientInABody) {
  const std::string body = R"(input { name: "k" dtype: INT32 max_value: 3 } block { name: "b" input: "a" input: "k"
  layer { name: "fc" input: "$a" dense { units: 3 } }
  layer { name: "right" input: "fc" input: "$k" accuracy {} }
  layer { name: "y" input: "$a" input: "right" mul {} }
  output: "y" }
)";
  const std::string loop = R"(layer { name: "l" input: "x" input: "k" loop { body: "b" times: 3
    carry { input: "a" output: "y" } } })";
  EXPECT_EQ(
      SaidOfCompile(body + loop, {}),
      "net:10:3: layer \"right\" (accuracy): has no gradient, but an objective depends on trained values through it; "
      "put a stop_gradient layer before it, or freeze what lies upstream");
  EXPECT_THAT(SaidOfCompile(body + loop, {.training = false}), StartsWith("loop \"l\": 3 rounds"));
}

// A weight whose value is thrown away, in a round and in a branch.
TEST(ControlFlowErrors, AGradientOfWhatDoesNotCount) {
  const std::string body = R"(block { name: "b" input: "a"
  layer { name: "dead" input: "$a" dense { units: 3 } }
  layer { name: "y" input: "$a" tanh {} }
  output: "y" }
)";
  EXPECT_EQ(SaidOfCompile(
                body + R"(layer { name: "l" input: "x" loop { body: "b" times: 3 carry { input: "a" output: "y" } } })",
                {.gradients = {"l.dead.weight"}}),
            "gradient of \"l.dead.weight\": no objective depends on it");
  EXPECT_EQ(SaidOfCompile(body + R"(layer { name: "l" input: "n" input: "x" branch { body: "b" body: "b" } })",
                          {.gradients = {"l.1.dead.weight"}}),
            "gradient of \"l.1.dead.weight\": no objective depends on it");
}

TEST(ControlFlowErrors, SubNetworksThatContainThemselves) {
  const std::string text = R"(
block { name: "one" input: "a"
  layer { name: "two" input: "$a" loop { body: "two" times: 2 carry { input: "a" output: "three" } } } }
block { name: "two" input: "a"
  layer { name: "three" input: "$a" loop { body: "one" times: 2 carry { input: "a" output: "two" } } } }
layer { name: "l" input: "x" loop { body: "one" times: 3 carry { input: "a" output: "two" } } })";
  EXPECT_THAT(ErrorOf(text), AllOf(StartsWith("net:12:50: layer \"three\" (loop): body: sub-network \"one\" contains "
                                              "itself: one -> two -> one"),
                                   HasSubstr("run by layer \"l\" at net:13:1")));
}

// Files made to do harm: bodies inside each other, and bodies that run two others each.
TEST(ControlFlowErrors, SubNetworksWithoutEnd) {
  const auto nested = [](int depth, int loops) {
    std::string text;
    for (int i = 0; i < depth; ++i) {
      text += "block { name: \"b" + std::to_string(i) + "\" input: \"a\" ";
      for (int k = 0; k < loops; ++k) {
        text += "layer { name: \"y" + std::to_string(k) + "\" input: \"" + (k == 0 ? "$a" : "y0") + "\" ";
        text += i == 0 ? "relu {} }"
                       : "loop { body: \"b" + std::to_string(i - 1) + "\" times: 1 carry { input: \"a\" output: \"y" +
                             std::to_string(loops - 1) + "\" } } }";
      }
      text += " }\n";
    }
    return ErrorOf(text + "layer { name: \"l\" input: \"x\" loop { body: \"b" + std::to_string(depth - 1) +
                   "\" times: 1 carry { input: \"a\" output: \"y" + std::to_string(loops - 1) + "\" } } }");
  };
  EXPECT_EQ(nested(16, 1), "");
  EXPECT_THAT(nested(17, 1), HasSubstr("body: sub-networks are nested more than 16 deep"));
  EXPECT_THAT(nested(16, 2), HasSubstr("body: the network runs more than 10000 sub-networks"));
}

TEST(ControlFlowErrors, AMistakeInABodyIsWhereItIsWritten) {
  EXPECT_THAT(
      ErrorOf(
          "block { name: \"bad\" input: \"a\"\n layer { name: \"y\" input: \"$a\" dense { units: 0 } } }\n"
          "layer { name: \"l\" input: \"x\" loop { body: \"bad\" times: 3 carry { input: \"a\" output: \"y\" } } }"),
      StartsWith("net:9:47: layer \"y\" (dense): option \"units\": expected at least 1, found 0 (in \"bad\", run by "
                 "layer \"l\" at net:10:1)"));
  EXPECT_EQ(
      ErrorOf(
          "block { name: \"bad\" input: \"a\"\n layer { name: \"y\" input: \"x\" relu {} } }\n"
          "layer { name: \"l\" input: \"x\" loop { body: \"bad\" times: 3 carry { input: \"a\" output: \"y\" } } }"),
      "net:9:27: there is no layer or input \"x\" (in block \"bad\" used at net:10:43)");
}

TEST(ControlFlowErrors, ParametersAreTheBodys) {
  EXPECT_EQ(
      ErrorOf(
          R"(layer { name: "l" input: "x" input: "x" loop { body: "body" times: 3 carry { input: "a" output: "next" } }
 param { name: "weight" frozen: true } })"),
      "net:9:2: layer \"l\" (loop): \"param\" belongs to a layer of the body: write it there");
}

TEST(ControlFlowErrors, Branches) {
  const auto branch = [](const std::string& inputs, const std::string& bodies) {
    return ErrorOf(
        "block { name: \"wide\" input: \"a\" input: \"b\" layer { name: \"y\" input: \"$a\" dense { units: 7 } } }\n"
        "block { name: \"one\" layer { name: \"y\" input: \"$input\" relu {} } }\n"
        "layer { name: \"l\" " +
        inputs + "\nbranch { " + bodies + " } }");
  };
  EXPECT_THAT(branch(R"(input: "n" input: "x" input: "x")", R"(body: "body")"),
              EndsWith("layer \"l\" (branch): expected at least 2 bodies to choose from, found 1"));
  EXPECT_THAT(branch("", R"(body: "body" body: "one")"),
              HasSubstr("expected the selector as its first input, found no"));
  EXPECT_EQ(
      branch(R"(input: "x" input: "x" input: "x")", R"(body: "body" body: "body")"),
      "net:10:26: layer \"l\" (branch): input 0: the selector: expected one integer, or one for each sample, found "
      "float32[2, 3]");
  EXPECT_EQ(branch(R"(input: "n" input: "x" input: "x")", R"(body: "body" body: "one")"),
            "net:11:29: layer \"l\" (branch): body: \"one\" has 1 input, but the layer gives 2 beside the selector");
  EXPECT_EQ(branch(R"(input: "n" input: "x" input: "x")", R"(body: "wide" body: "body")"),
            "net:11:29: layer \"l\" (branch): body: \"body\" puts out 2 values, but \"wide\" 1");
  EXPECT_THAT(ErrorOf(R"(block { name: "p" layer { name: "y" input: "$input" dense { units: 7 } } }
    block { name: "q" layer { name: "y" input: "$input" relu {} } }
    layer { name: "l" input: "n" input: "x" branch { body: "p" body: "q" } })"),
              HasSubstr("body: \"q\" puts out float32[2, 3] as its \"y\", but \"p\" puts out float32[2, 7]"));
  EXPECT_THAT(ErrorOf(R"(block { name: "p" layer { name: "y" input: "$input" reduce_sum {axis: 0} } }
    layer { name: "l" input: "m" input: "x" branch { body: "p" body: "p" } })"),
              HasSubstr("body: \"y\" is float32[3], but the selector has 2 numbers: expected as many rows"));
}

// The flat forms say the same, and load as the same network.
TEST(ControlFlowErrors, FlatNetworksKeepTheirSubNetworks) {
  const std::string text = std::string(kHead) + R"(
layer { name: "l" input: "x" input: "x" loop { body: "body" times: 3 carry { input: "a" output: "next" } } })";
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "net");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const std::string written = WriteNetworkText(loaded->network);
  EXPECT_THAT(written, HasSubstr("subnetwork {"));
  const absl::StatusOr<LoadedNetwork> again = LoadNetworkText(written, "net");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(WriteNetworkText(again->network), written);
  const std::string bytes = WriteNetworkBinary(loaded->network);
  const absl::StatusOr<LoadedNetwork> binary = LoadNetworkBinary(bytes, "net.pb");
  ASSERT_TRUE(binary.ok()) << binary.status().message();
  EXPECT_EQ(WriteNetworkText(binary->network), written);
}

TEST(ControlFlowErrors, SubNetworksThatAreWrittenAsSuch) {
  const auto error = [](const std::string& inside) {
    return std::string(
        LoadNetworkText(inside + "\ninput { name: \"x\" } layer { name: \"y\" input: \"x\" relu {} }", "net")
            .status()
            .message());
  };
  EXPECT_EQ(error(R"(subnetwork { name: "b" input: "a" layer { name: "y" input: "a" relu {} } output { name: "y" } })"),
            "");
  EXPECT_EQ(error(R"(subnetwork { name: "b" input: "a" layer { name: "y" input: "q" relu {} } output { name: "y" } })"),
            "net:1:1: there is no layer or input \"q\"");
  EXPECT_EQ(error(R"(subnetwork { name: "b" input: "a" layer { name: "y" input: "a" } })"),
            "net:1:1: sub-network \"b\": layer 0 \"y\": expected one op, found 0");
  EXPECT_EQ(error("subnetwork { name: \"b\" }\nsubnetwork { name: \"b\" }"),
            "net:2:1: sub-network \"b\": is defined twice");
}

}  // namespace
}  // namespace snug::core
