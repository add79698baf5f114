// The passes that make loops train well: what is taken out of bodies, cells in one sweep, weight gradients in one
// product, sums that are added up as their terms are made. With each of them and without it a network has the same loss
// and gradients, up to rounding; and they do what they are for.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/compile/memory/plan_memory.h"
#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

const std::set<std::string> kRecurrentPasses = {"hoist_loop_inputs", "recurrent_cells", "stack_weight_gradients",
                                                "accumulate_sums"};

constexpr char kLstmOfWords[] = R"(
block { name: "cell" input: ["ids", "x", "h", "c"]
  layer { name: "word" input: "$ids" embedding { entries: 5 width: 3 } }
  layer { name: "both" input: "word" input: "$x" add {} }
  layer { name: "ih" input: "both" dense { units: 12 } }
  layer { name: "hh" input: "$h" dense { units: 12 } }
  layer { name: "sum" input: "hh" input: "ih" add {} }
  layer { name: "gates" input: "sum" split { parts: 4 axis: 1 } }
  layer { name: "i" input: "gates:3" sigmoid {} }
  layer { name: "f" input: "gates:1" sigmoid {} }
  layer { name: "g" input: "gates:2" tanh {} }
  layer { name: "o" input: "gates" sigmoid {} }
  layer { name: "kept" input: "$c" input: "f" mul {} }
  layer { name: "added" input: "g" input: "i" mul {} }
  layer { name: "c_next" input: "added" input: "kept" add {} }
  layer { name: "bounded" input: "c_next" tanh {} }
  layer { name: "h_next" input: "bounded" input: "o" mul {} }
  output: ["h_next", "c_next"] }
)";

constexpr char kGruOfWords[] = R"(
block { name: "cell" input: ["ids", "x", "h"]
  layer { name: "word" input: "$ids" embedding { entries: 5 width: 3 } }
  layer { name: "both" input: "word" input: "$x" add {} }
  layer { name: "ih" input: "both" dense { units: 9 } }
  layer { name: "hh" input: "$h" dense { units: 9 } }
  layer { name: "from_x" input: "ih" split { parts: 3 axis: 1 } }
  layer { name: "from_h" input: "hh" split { parts: 3 axis: 1 } }
  layer { name: "r_sum" input: "from_h" input: "from_x" add {} }
  layer { name: "r" input: "r_sum" sigmoid {} }
  layer { name: "z_sum" input: "from_x:2" input: "from_h:2" add {} }
  layer { name: "z" input: "z_sum" sigmoid {} }
  layer { name: "reset" input: "from_h:1" input: "r" mul {} }
  layer { name: "n_sum" input: "reset" input: "from_x:1" add {} }
  layer { name: "n" input: "n_sum" tanh {} }
  layer { name: "change" input: "$h" input: "n" sub {} }
  layer { name: "kept" input: "change" input: "z" mul {} }
  layer { name: "h_next" input: "kept" input: "n" add {} }
  output: "h_next" }
)";

// A layer in each direction over twelve rounds; the second one begins with the last slice.
std::string SequencesOfWords(const std::string& kind) {
  const bool lstm = kind == "lstm";
  std::string text = absl::StrCat("batch: 2\n", lstm ? kLstmOfWords : kGruOfWords, R"(
    input { name: "ids" shape { dim: 12 } dtype: INT32 max_value: 5 }
    input { name: "x" shape { dim: [12, 3] } }
    input { name: "h" shape { dim: 3 } }
    input { name: "c" shape { dim: 3 } }
    layer { name: "c_read" input: "c" square {} }
    objective: "c_read"
  )");
  for (const char* name : {"ahead", "back"}) {
    const std::string way = name[0] == 'b' ? " reverse: true" : "";
    absl::StrAppend(&text, "layer { name: \"", name, "\" input: [\"ids\", \"x\", \"h\"", lstm ? ", \"c\"" : "",
                    "] loop { body: \"cell\" scan { input: \"ids\"", way, " } scan { input: \"x\"", way,
                    " } carry { input: \"h\" output: \"h_next\" }",
                    lstm ? " carry { input: \"c\" output: \"c_next\" }" : "", " collect { output: \"h_next\"", way,
                    " } } }\n");
    absl::StrAppend(&text, "layer { name: \"", name, "_all\" input: \"", name, lstm ? ":2" : ":1", "\" square {} }\n");
    absl::StrAppend(&text, "layer { name: \"", name, "_loss\" input: \"", name, "_all\" reduce_sum {} }\nobjective: \"",
                    name, "_loss\"\n");
  }
  return text;
}

// Filters that are read in twenty rounds.
constexpr char kConvolutions[] = R"(
batch: 2
block { name: "body" input: "x"
  layer { name: "conv" input: "$x" conv { filters: 2 kernel: 3 pad: 1 bias: false } }
  layer { name: "y" input: "conv" tanh {} }
  output: "y" }
input { name: "x" shape { dim: [2, 5, 5] } }
layer { name: "deep" input: "x" loop { body: "body" times: 20 carry { input: "x" output: "y" } } }
layer { name: "loss" input: "deep" square {} }
objective: "loss"
)";

struct TrainedNetwork {
  std::string text;
  std::vector<std::string> losses, gradients;
};

TrainedNetwork NetworkOf(const std::string& kind) {
  if (kind == "conv") return {kConvolutions, {"loss"}, {"x", "deep.conv.weight"}};
  TrainedNetwork made = {SequencesOfWords(kind), {"ahead_loss", "back_loss"}, {"x", "h"}};
  if (kind == "lstm") made.gradients.emplace_back("c");
  for (const char* way : {"ahead", "back"}) {
    for (const char* name : {"word.weight", "ih.weight", "ih.bias", "hh.weight", "hh.bias"}) {
      made.gradients.push_back(absl::StrCat(way, ".", name));
    }
  }
  return made;
}

std::map<std::string, Numbers> ComputeWithout(const TrainedNetwork& of, const std::set<std::string>& disabled) {
  CompileOptions options = InDouble(of.gradients);
  for (const std::string& pass : disabled) options.disabled_passes.insert(pass);
  std::map<std::string, Numbers> feeds;
  const int64_t samples = 2;
  feeds["ids"] = Numbers(samples * 12);
  for (size_t i = 0; i < feeds["ids"].size(); ++i) feeds["ids"][i] = static_cast<double>(i * 7 % 5);
  const int64_t numbers = of.text == kConvolutions ? 50 : 36;
  for (const char* name : {"x", "h", "c"}) {
    const int64_t n = name[0] == 'x' ? samples * numbers : samples * 3;
    for (int64_t i = 0; i < n; ++i) feeds[name].push_back(0.8 * std::sin(static_cast<double>(3 * i + name[0])));
  }
  if (of.text == kConvolutions) {
    feeds = {{"x", feeds["x"]}};
  } else if (std::find(of.gradients.begin(), of.gradients.end(), "c") == of.gradients.end()) {
    feeds["c"] = Numbers(samples * 3, 0.5);
  }
  std::vector<std::string> fetched = of.losses;
  for (const std::string& name : of.gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  return RunOnce(of.text, feeds, fetched, options);
}

class RecurrentPassesTest : public testing::TestWithParam<const char*> {};

TEST_P(RecurrentPassesTest, EachChangesNothingButRounding) {
  const TrainedNetwork of = NetworkOf(GetParam());
  const auto truth = ComputeWithout(of, kRecurrentPasses);
  ASSERT_FALSE(truth.empty());
  std::vector<std::set<std::string>> choices = {{}};
  for (const std::string& pass : kRecurrentPasses) {
    choices.push_back({pass});
    std::set<std::string> others = kRecurrentPasses;
    others.erase(pass);
    choices.push_back(others);
  }
  for (const std::set<std::string>& disabled : choices) {
    const auto found = ComputeWithout(of, disabled);
    for (const auto& [name, numbers] : truth) {
      double largest = 0;
      for (const double number : numbers) largest = std::max(largest, std::abs(number));
      EXPECT_GT(largest, 0) << name;
      EXPECT_THAT(found.at(name), testing::Pointwise(testing::DoubleNear(1e-13 * std::max(1.0, largest)), numbers))
          << name << ", without " << (disabled.empty() ? "any" : *disabled.begin());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Control, RecurrentPassesTest, testing::Values("lstm", "gru", "conv"),
                         [](const auto& info) { return std::string(info.param); });

// How often each op is there; of sums, how many terms the longest has.
struct OpCounts {
  std::map<std::string, int> ops;
  size_t longest_sum = 0;
};

OpCounts CountAfter(const std::string& text, absl::string_view stage, const CompileOptions& options = {}) {
  const absl::StatusOr<Graph> graph = GraphAfter(text, stage, options);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  OpCounts counts;
  if (!graph.ok()) return counts;
  for (const NodeId id : graph->ProgramOrder()) {
    ++counts.ops[graph->node(id).op];
    if (graph->node(id).op == "add_n") counts.longest_sum = std::max(counts.longest_sum, graph->node(id).inputs.size());
  }
  return counts;
}

TEST(RecurrentPasses, InputsHaveOneProductForAllRounds) {
  OpCounts counts = CountAfter(SequencesOfWords("lstm"), "35_unroll");
  EXPECT_EQ(counts.ops["embedding"], 2);
  EXPECT_EQ(counts.ops["dense"], 2 + 2 * 12);
  EXPECT_EQ(counts.ops["lstm_cell"], 2 * 12);
  EXPECT_EQ(counts.ops["sigmoid"] + counts.ops["tanh"] + counts.ops["mul"] + counts.ops["add"], 2);  // word + x
  EXPECT_EQ(CountAfter(SequencesOfWords("gru"), "35_unroll").ops["gru_cell"], 2 * 12);
}

// Of each direction: one product with x, and of the recurrent weight one for the rounds that read a round before them
// and one for the first, which reads what the loop began with.
TEST(RecurrentPasses, AWeightHasOneGradient) {
  OpCounts counts = CountAfter(SequencesOfWords("lstm"), "42_accumulate_sums");
  EXPECT_EQ(counts.ops["dense_grad_weight"], 2 * 3);
  EXPECT_LE(counts.longest_sum, 4) << "of h, c and x";
}

// A layer above another one reads what that collects, which lies as the rounds make it, unless somebody else reads it.
TEST(RecurrentPasses, WhatALayerCollectsForTheNextOneIsNotMoved) {
  std::string cell = kLstmOfWords;
  const size_t word = cell.find("  layer { name: \"word\""), ih = cell.find("  layer { name: \"ih\"");
  cell.erase(word, ih - word);
  cell.replace(cell.find("\"both\" dense"), 6, "\"$x\"");
  cell.replace(cell.find("\"ids\", "), 7, "");
  const std::string loop = R"( loop { body: "cell" scan { input: "x" } carry { input: "h" output: "h_next" }
    carry { input: "c" output: "c_next" } collect { output: "h_next" } } }
  )";
  const std::string text = absl::StrCat("batch: 2\n", cell, R"(
    input { name: "x" shape { dim: [5, 3] } } input { name: "h" shape { dim: 3 } } input { name: "c" shape { dim: 3 } }
    layer { name: "first" input: ["x", "h", "c"])",
                                        loop, R"( layer { name: "second" input: ["first:2", "h", "c"])", loop,
                                        R"( layer { name: "loss" input: "second:2" square {} } objective: "loss")");
  const auto transposes = [&](const std::string& more, const std::set<std::string>& fetch = {}) {
    CompileOptions options;
    options.fetch.assign(fetch.begin(), fetch.end());
    return CountAfter(absl::StrCat(text, more), "11_hoist_loop_inputs", options).ops["transpose"];
  };
  EXPECT_EQ(transposes(""), 1);  // of x
  EXPECT_EQ(transposes(R"( layer { name: "other" input: "first:2" square {} } objective: "other")"), 2);
  EXPECT_EQ(transposes("", {"first:2"}), 2);
  const std::vector<std::string> gradients = {"x", "h", "c", "first.ih.weight", "first.hh.weight", "second.ih.weight"};
  std::vector<std::string> fetched = {"loss", "second:2"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  std::map<std::string, Numbers> feeds;
  for (const auto& [name, n] : std::map<std::string, int>{{"x", 2 * 5 * 3}, {"h", 2 * 3}, {"c", 2 * 3}}) {
    for (int i = 0; i < n; ++i) feeds[name].push_back(std::sin(static_cast<double>(3 * i + name[0])));
  }
  CompileOptions options = AsWritten(InDouble(gradients));
  const auto in_rounds = RunOnce(text, feeds, fetched, options);
  options.disabled_passes.erase("hoist_loop_inputs");
  for (const LoopRule rule : {LoopRule::kRolled, LoopRule::kUnrolled}) {
    options.loops = rule;
    const auto before = RunOnce(text, feeds, fetched, options);
    for (const auto& [name, numbers] : in_rounds) {
      EXPECT_THAT(before.at(name), testing::Pointwise(testing::DoubleNear(1e-14), numbers)) << name;
    }
  }
}

// The biases of x and of h have one gradient: the sum of the rows that flow back to the products of both.
TEST(RecurrentPasses, ABiasHasOneSumOfRowsForAllRounds) {
  EXPECT_EQ(CountAfter(SequencesOfWords("lstm"), "40_updates").ops["reduce_to_shape"], 2 * 2);
  EXPECT_EQ(CountAfter(SequencesOfWords("lstm"), "51_common_subexpressions").ops["reduce_to_shape"], 2);
}

TEST(RecurrentPasses, TheGradientOfFiltersTakesTheMemoryOfAFew) {
  const std::string text = R"(
    batch: 1
    block { name: "body" input: "x"
      layer { name: "conv" input: "$x" conv { filters: 16 kernel: 3 pad: 1 bias: false } }
      output: "conv" }
    input { name: "x" shape { dim: [16, 2, 2] } }
    layer { name: "deep" input: "x" loop { body: "body" times: 64 carry { input: "x" output: "conv" } } }
    layer { name: "loss" input: "deep" square {} }
    objective: "loss")";
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.plain_kernels = true});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const int64_t filters = 16 * 16 * 9 * 4;
  EXPECT_LT(compiled->executable.memory.step_bytes(), 12 * filters);
}

// Networks whose bodies keep what they have.
TEST(RecurrentPasses, WhatDependsOnCarriesOrCannotBeDoneAtOnceStays) {
  const auto dense_before_the_loop = [](const std::string& layers, const std::string& loop) {
    const std::string text =
        absl::StrCat(R"(
      batch: 2
      input { name: "x" shape { dim: [4, 3] } }
      input { name: "y" shape { dim: [4, 3] } }
      input { name: "h" shape { dim: 3 } }
      input { name: "count" dtype: INT32 max_value: 5 }
      block { name: "cell" input: ["x", "y", "h"] )",
                     layers, R"( layer { name: "next" input: "made" input: "$h" add {} } output: "next" }
      layer { name: "rnn" input: ["x", "y", "h")",
                     loop);
    const absl::StatusOr<Graph> graph = GraphAfter(text, "11_hoist_loop_inputs", {});
    EXPECT_TRUE(graph.ok()) << graph.status().message() << text;
    int count = 0;
    for (const NodeId id : graph->ProgramOrder()) count += graph->node(id).op == "dense" ? 1 : 0;
    return count;
  };
  const std::string ends = R"( carry { input: "h" output: "next" } } } objective: "rnn")";
  const std::string plain = absl::StrCat(R"(] loop { body: "cell" scan { input: "x" } scan { input: "y" })", ends);
  const std::string of_x = R"(layer { name: "made" input: "$x" dense { units: 3 } })";
  EXPECT_EQ(dense_before_the_loop(of_x, plain), 1);
  EXPECT_EQ(dense_before_the_loop(R"(layer { name: "made" input: "$h" dense { units: 3 } })", plain), 0);
  const std::string of_both =
      R"(layer { name: "both" input: "$x" input: "$y" add {} } layer { name: "made" input: "both" dense { units: 3 } })";
  EXPECT_EQ(dense_before_the_loop(of_both, plain), 1);
  EXPECT_EQ(dense_before_the_loop(
                of_both,
                absl::StrCat(R"(] loop { body: "cell" scan { input: "x" } scan { input: "y" reverse: true })", ends)),
            0)
      << "slices of two directions do not lie side by side";
  EXPECT_EQ(dense_before_the_loop(absl::StrCat(R"(layer { name: "dropped" input: "$x" dropout { rate: 0.5 } })",
                                               R"(layer { name: "made" input: "dropped" dense { units: 3 } })"),
                                  plain),
            0)
      << "every round draws its own numbers";
  EXPECT_EQ(
      dense_before_the_loop(
          of_x, absl::StrCat(R"(, "count"] loop { body: "cell" counted: true scan { input: "x" } scan { input: "y" })",
                             ends)),
      1);
  EXPECT_EQ(dense_before_the_loop(
                R"(layer { name: "size" input: "$x" square {} } layer { name: "root" input: "size" sqrt {} }
                   layer { name: "made" input: "root" dense { units: 3 } })",
                absl::StrCat(R"(, "count"] loop { body: "cell" counted: true scan { input: "x" } scan { input: "y" })",
                             ends)),
            0)
      << "where a round does not count, a root of zeros has no gradient";
  EXPECT_EQ(dense_before_the_loop(
                absl::StrCat(of_x, R"(layer { name: "go" input: "made" reduce_sum { axis: 1 } } output: "go")"),
                absl::StrCat(R"(] loop { body: "cell" condition: "go" scan { input: "x" } scan { input: "y" })", ends)),
            0)
      << "how many rounds count is not known before the loop";
}

// Rounds that do not count read what is not finite: before the loop as in it, that changes neither values nor
// gradients.
TEST(RecurrentPasses, CountedLoopsHaveTheSameBitsWithAndWithoutHoisting) {
  constexpr int kSamples = 2, kRounds = 5, kWidth = 3;
  const auto text = [](bool by_sample, bool reverse) {
    const std::string way = reverse ? " reverse: true" : "";
    return absl::StrCat(R"(
    batch: 2
    block { name: "cell" input: ["ids", "x", "shared", "h"]
      layer { name: "word" input: "$ids" embedding { entries: 5 width: 3 } }
      layer { name: "both" input: "word" input: "$x" add {} }
      layer { name: "ih" input: "both" dense { units: 3 } }
      layer { name: "same" input: "$shared" dense { units: 3 } }
      layer { name: "hh" input: "$h" dense { units: 3 } }
      layer { name: "sum" input: "ih" input: "hh" add {} }
      layer { name: "all" input: "sum" input: "same" add {} }
      layer { name: "next" input: "all" tanh {} }
      output: "next" }
    input { name: "ids" shape { dim: 5 } dtype: INT32 max_value: 5 }
    input { name: "x" shape { dim: [5, 3] } }
    input { name: "shared" shape { dim: 3 } }
    input { name: "h" shape { dim: 3 } }
    input { name: "count" dtype: INT32 max_value: 6 )",
                        by_sample ? "" : "no_batch: true", R"( }
    layer { name: "rnn" input: ["ids", "x", "shared", "h", "count"] loop { body: "cell" counted: true
      scan { input: "ids")",
                        way, R"( } scan { input: "x")", way, R"( } carry { input: "h" output: "next" }
      collect { output: "next")",
                        way, R"( } } }
    layer { name: "squares" input: "rnn:1" square {} }
    layer { name: "loss" input: "squares" reduce_sum {} }
    layer { name: "last" input: "rnn" reduce_sum {} }
    objective: "loss" objective: "last")");
  };
  const std::vector<std::string> exact = {"rnn", "rnn:1", "loss", "last", "d(x)", "d(h)"};
  const std::vector<std::string> summed = {"d(shared)",      "d(rnn.word.weight)", "d(rnn.ih.weight)",
                                           "d(rnn.ih.bias)", "d(rnn.same.weight)", "d(rnn.hh.weight)"};
  std::vector<std::string> fetched = exact;
  fetched.insert(fetched.end(), summed.begin(), summed.end());
  std::vector<std::string> gradients = {"x", "h"};
  for (const std::string& name : summed) gradients.push_back(name.substr(2, name.size() - 3));
  const std::vector<Numbers> all_counts = {{0}, {1}, {3}, {5}, {0, 4}, {2, 5}, {1, 0}, {5, 5}, {0, 0}};
  for (const Numbers& counts : all_counts) {
    for (const bool reverse : {false, true}) {
      const bool by_sample = counts.size() > 1;
      std::map<std::string, Numbers> feeds = {{"count", counts}, {"ids", {}}, {"x", {}}};
      for (int sample = 0; sample < kSamples; ++sample) {
        const double count = by_sample ? counts[static_cast<size_t>(sample)] : counts[0];
        for (int place = 0; place < kRounds; ++place) {
          const int round = reverse ? kRounds - 1 - place : place;
          // A sample of which no round counts does its first one beside the others, so that is finite.
          const bool there = round < count || (by_sample && round == 0);
          feeds["ids"].push_back((sample * 7 + place * 3) % 5);
          for (int i = 0; i < kWidth; ++i) {
            feeds["x"].push_back(there ? std::sin(static_cast<double>(sample + 3 * place + i)) : NAN);
          }
        }
      }
      const bool none = !by_sample && counts[0] == 0;
      feeds["h"] = {0.1, -0.2, 0.3, 0.4, -0.5, 0.6};
      feeds["shared"] = none ? Numbers(kSamples * kWidth, NAN) : Numbers{0.5, 0.25, -0.5, 1, -1, 0.75};
      SCOPED_TRACE(absl::StrCat("counts ", counts[0], by_sample ? ", by sample" : "", reverse ? ", reverse" : ""));
      CompileOptions options = AsWritten(InDouble(gradients));
      options.loops = LoopRule::kRolled;
      const auto in_rounds = RunOnce(text(by_sample, reverse), feeds, fetched, options);
      options.disabled_passes.erase("hoist_loop_inputs");
      const auto before = RunOnce(text(by_sample, reverse), feeds, fetched, options);
      options.loops = LoopRule::kUnrolled;
      EXPECT_EQ(RunOnce(text(by_sample, reverse), feeds, fetched, options), before);
      for (const std::string& name : exact) EXPECT_EQ(before.at(name), in_rounds.at(name)) << name;
      for (const std::string& name : summed) {
        EXPECT_THAT(before.at(name), testing::Pointwise(testing::DoubleNear(none ? 0 : 1e-13), in_rounds.at(name)))
            << name;
        for (const double number : before.at(name)) EXPECT_TRUE(std::isfinite(number)) << name;
      }
    }
  }
}

// What is not the cell's shape, or is read by others, keeps its nodes.
TEST(RecurrentPasses, OnlyWholeCellsAreTaken) {
  const auto cells = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    OpCounts counts = CountAfter(text, "35_unroll");
    return counts.ops["lstm_cell"] + counts.ops["gru_cell"];
  };
  EXPECT_EQ(cells(SequencesOfWords("lstm"), "output: [", "output: ["), 24);
  EXPECT_EQ(cells(SequencesOfWords("lstm"), "input: \"gates:2\" tanh", "input: \"gates:2\" sigmoid"), 0);
  EXPECT_EQ(cells(SequencesOfWords("lstm"), "input: \"c_next\" tanh", "input: \"kept\" tanh"), 0);
  EXPECT_EQ(cells(SequencesOfWords("lstm"), "[\"h_next\", \"c_next\"]", "[\"h_next\", \"c_next\", \"f\"]"), 0);
  EXPECT_EQ(cells(SequencesOfWords("lstm"), "input: \"$c\" input: \"f\" mul", "input: \"i\" input: \"f\" mul"), 0);
  EXPECT_EQ(cells(SequencesOfWords("gru"), "output: \"h_next\"", "output: \"h_next\""), 24);
  EXPECT_EQ(cells(SequencesOfWords("gru"), "input: \"from_h:2\" add", "input: \"from_h:1\" add"), 0);
  EXPECT_EQ(cells(SequencesOfWords("gru"), "input: \"$h\" input: \"n\" sub", "input: \"n\" input: \"$h\" sub"), 0);
}

}  // namespace
}  // namespace snug::core::test
