// Loops that stay nodes: the same bits as the straight line of their rounds, nothing moved between rounds, plans that
// do not grow with them, and ends at run time that come when they should.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/substitute.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"
#include "tests/control/lstm_cell.h"

namespace snug::core::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsNan;
using testing::Pointwise;

// The rolled loops of a program, by the names of their nodes.
std::map<std::string, const RolledLoop*> Rolled(const Compiled& compiled) {
  std::map<std::string, const RolledLoop*> loops;
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const RolledLoop* const loop = RolledLoopOf(compiled.kernels[static_cast<size_t>(id.index)]);
    if (loop != nullptr) loops[compiled.graph.node(id).name] = loop;
  }
  return loops;
}

// An LSTM of `units` over `length` steps, trained on a sum of squares. Sequences lie [length, batch, units] if
// `time_first`.
std::string Lstm(int batch, int length, int units, bool time_first) {
  return LstmCell(units, /*second_bias=*/false) +
         absl::Substitute(R"(
    batch: $0
    input { name: "x" $1 }
    input { name: "h" shape { dim: $2 } }
    input { name: "c" shape { dim: $2 } }
    layer { name: "lstm" input: "x" input: "h" input: "c" loop { body: "cell" scan { input: "x" $3 }
      carry { input: "h" output: "h_next" } carry { input: "c" output: "c_next" } collect { output: "h_next" $3 } } }
    layer { name: "squares" input: "lstm:2" square {} }
    layer { name: "last" input: "lstm" input: "lstm:1" mul {} }
    layer { name: "a" input: "squares" reduce_mean {} }
    layer { name: "b" input: "last" reduce_mean {} }
    layer { name: "loss" input: "a" input: "b" add {} }
    objective: "loss" output: "lstm:2")",
                          batch,
                          time_first
                              ? absl::StrCat("no_batch: true shape { dim: [", length, ", ", batch, ", ", units, "] }")
                              : absl::StrCat("shape { dim: [", length, ", ", units, "] }"),
                          units, time_first ? "axis: 0" : "");
}

std::vector<Numbers> Train(const std::string& text, CompileOptions options, const std::vector<std::string>& fetched,
                           std::optional<ExecutorKind> engine = std::nullopt) {
  std::vector<Numbers> found;
  auto session = MakeUnfed(text, std::move(options), engine);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return found;
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
  for (int step = 0; step < 2; ++step) {
    const absl::Status run = (*session)->Run();
    EXPECT_TRUE(run.ok()) << run.message();
    for (const std::string& name : fetched) found.push_back(*(*session)->Fetch(name));
  }
  return found;
}

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
      const std::vector<Numbers> unrolled = Train(text, options, fetched);
      options.loops = LoopRule::kRolled;
      const std::vector<Numbers> truth = Train(text, options, fetched, ExecutorKind::kSerial);
      ASSERT_EQ(truth.size(), unrolled.size());
      for (size_t i = 0; i < truth.size(); ++i) {
        EXPECT_THAT(truth[i], Pointwise(DoubleNear(exact ? 0 : 0.03), unrolled[i])) << i;
      }
      options.memory.streams = 2;
      EXPECT_EQ(Train(text, options, fetched, ExecutorKind::kReplay), truth);
      EXPECT_EQ(Train(text, options, fetched, ExecutorKind::kDynamic), truth);
      options.memory.streams = 1;
      options.memory.strategy = std::string(kDynamicMemory);
      EXPECT_EQ(Train(text, options, fetched), truth);
    }
  }
}

TEST(RolledLoops, NothingIsMovedBetweenRounds) {
  CompileOptions options{.loops = LoopRule::kRolled};
  auto session = MakeSession(Lstm(4, 12, 16, /*time_first=*/true), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Run().ok());
  const auto loops = Rolled((*session)->compiled());
  ASSERT_EQ(loops.size(), 2);
  for (const auto& [name, loop] : loops) {
    SCOPED_TRACE(name);
    EXPECT_EQ(loop->counts().rounds, 12);
    EXPECT_EQ(loop->counts().sliced_bytes, 0);  // sequences lie with their steps first
    // What h and c are at last is taken from where h was collected, and c stashed.
    EXPECT_EQ(loop->counts().last_bytes, name == "lstm" ? 2 * 4 * 16 * 4 : 0);
  }
  // Batch first, a step's slice is 4 rows of 16 numbers that are written once. The products of what is read are made
  // before the loop, with the steps first.
  session = MakeSession(Lstm(4, 12, 16, /*time_first=*/false), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Run().ok());
  const RolledLoop& forward = *Rolled((*session)->compiled()).at("lstm");
  EXPECT_EQ(forward.counts().sliced_bytes, 12 * 4 * 16 * 4);
}

// What NNC says of each: where carries lie.
TEST(RolledLoops, CarriesAlternateOrShareOneAddress) {
  const auto buffers = [](const std::string& body, const std::string& inputs, const std::string& carries) {
    const std::string text = absl::StrCat("block { name: \"body\" ", body, " }\nbatch: 2\n",
                                          "input { name: \"a\" shape { dim: [2, 4, 4] } }\n", "layer { name: \"l\" ",
                                          inputs, " loop { body: \"body\" times: 7 ", carries, " } }\noutput: \"l\"");
    CompileOptions options{.training = false, .loops = LoopRule::kRolled};
    std::vector<int> found;
    auto session = MakeSession(text, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return found;
    EXPECT_TRUE((*session)->Run().ok());
    const RolledLoop& loop = *Rolled((*session)->compiled()).at("l");
    EXPECT_EQ(loop.counts().sliced_bytes, 0);
    EXPECT_EQ(loop.counts().last_bytes, 0);
    found = loop.CarryBuffers();
    const Numbers rolled = *(*session)->Fetch("l");
    options.loops = LoopRule::kUnrolled;
    session = MakeSession(text, options);
    EXPECT_TRUE((*session)->Run().ok());
    const Numbers unrolled = *(*session)->Fetch("l");
    EXPECT_EQ(unrolled.size(), rolled.size());
    // Bits, as products that grow like these may end in NaN, which equals nothing.
    EXPECT_EQ(std::memcmp(unrolled.data(), rolled.data(), rolled.size() * sizeof(double)), 0);
    return found;
  };
  EXPECT_THAT(buffers(R"(input: "x" layer { name: "y" input: "$x" input: "$x" matmul {} } output: "y")", "input: \"a\"",
                      R"(carry { input: "x" output: "y" })"),
              ElementsAre(2));
  // The first of two ops has read x before the second writes y.
  EXPECT_THAT(buffers(R"(input: "x" layer { name: "p" input: "$x" input: "$x" matmul {} }
                layer { name: "y" input: "p" softmax {} })",
                      "input: \"a\"", R"(carry { input: "x" output: "y" })"),
              ElementsAre(1));
  EXPECT_THAT(buffers(R"(input: "x" layer { name: "y" input: "$x" tanh {} })", "input: \"a\"",
                      R"(carry { input: "x" output: "y" })"),
              ElementsAre(1));  // in place
  // x2 -> x1, and what is computed of x1 and x2 -> x2: what x1 is was made two rounds ago.
  constexpr char kTwo[] = R"(input: "x1" input: "x2" layer { name: "y" input: "$x2"
                input: "$x2" matmul {} } layer { name: "z" input: "y" input: "$x1" add {} } output: "z" output: "$x2")";
  EXPECT_THAT(buffers(kTwo, R"(input: "a" input: "a")",
                      R"(carry { input: "x2" output: "z" } carry { input: "x1" output: "x2" })"),
              ElementsAre(2, 0));
  constexpr char kThree[] = R"(input: "x0" input: "x1" input: "x2"
                layer { name: "y" input: "$x2" input: "$x0" matmul {} } output: "y" output: "$x1" output: "$x2")";
  EXPECT_THAT(buffers(kThree, R"(input: "a" input: "a" input: "a")",
                      R"(carry { input: "x2" output: "y" } carry { input: "x0" output: "x1" }
                carry { input: "x1" output: "x2" })"),
              ElementsAre(4, 0, 0));
}

// Runs it as its straight line and rolled. Values and gradients have the same bits; returns how many bytes the rounds
// of all its loops copied, and checks what carries of "l" alternate between.
int64_t BytesCopied(const std::string& text, const std::map<std::string, Numbers>& feeds,
                    const std::vector<std::string>& wanted, std::vector<std::string> fetched,
                    const testing::Matcher<std::vector<int>>& buffers) {
  std::vector<std::vector<Numbers>> found;
  int64_t bytes = -1;
  for (const std::string& name : wanted) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const LoopRule rule : {LoopRule::kUnrolled, LoopRule::kRolled}) {
    CompileOptions options = InDouble(wanted);
    options.loops = rule;
    const auto session = MakeUnfed(text, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return -1;
    for (const auto& [name, values] : feeds) EXPECT_TRUE((*session)->Feed(name, values).ok()) << name;
    EXPECT_TRUE((*session)->Run().ok());
    std::vector<Numbers>& here = found.emplace_back();
    for (const std::string& name : fetched) here.push_back(*(*session)->Fetch(name));
    const auto loops = Rolled((*session)->compiled());
    EXPECT_EQ(loops.empty(), rule == LoopRule::kUnrolled);
    if (loops.empty()) continue;
    EXPECT_THAT(loops.at("l")->CarryBuffers(), buffers);
    bytes = 0;
    for (const auto& [name, loop] : loops) bytes += loop->counts().sliced_bytes;
  }
  EXPECT_EQ(found[0], found[1]);
  return bytes;
}

Numbers Waves(size_t n, double from) {
  Numbers values(n);
  for (size_t i = 0; i < n; ++i) values[i] = std::sin(from + 1.7 * static_cast<double>(i));
  return values;
}

// Carries that only change places: pointers are handed on, forward and backward.
TEST(RolledLoops, CarriesThatChangePlaces) {
  for (const int count : {2, 3}) {
    for (const int rounds : {1, 2, 6, 7}) {
      SCOPED_TRACE(absl::StrCat(count, " carries, ", rounds, " rounds"));
      std::string places, outputs, carries, inputs, fed, network;
      std::map<std::string, Numbers> feeds;
      std::vector<std::string> wanted, fetched = {"loss"};
      for (int i = 0; i < count; ++i) {
        const std::string place = absl::StrCat("p", i), x = absl::StrCat("x", i);
        const std::string output = i == 0 ? "l" : absl::StrCat("l:", i);
        absl::StrAppend(&places, " input: \"", place, "\"");
        absl::StrAppend(&outputs, " output: \"$", place, "\"");
        absl::StrAppend(&carries, " carry { input: \"", place, "\" output: \"p", (i + 1) % count, "\" }");
        absl::StrAppend(&fed, " input: \"", x, "\"");
        wanted.push_back(x);
        fetched.push_back(output);
        feeds[x] = Waves(8, i);
        absl::SubstituteAndAppend(&network, R"(
          layer { name: "f$1" input: "$0" scale { factor: $2 } }
          layer { name: "s$1" input: "f$1" square {} }
          layer { name: "sum$1" input: "s$1" input: "$3" add {} }
          output: "$0")",
                                  output, i, 2 + i, i == 0 ? "s0" : absl::StrCat("sum", i - 1));
        absl::StrAppend(&inputs, "input { name: \"", x, "\" shape { dim: 4 } }\n");
      }
      const std::string text = absl::StrCat(
          "block { name: \"turn\"", places, outputs, R"( layer { name: "unread" input: "$p0" tanh {} } })",
          "\nbatch: 2\n", inputs, "layer { name: \"l\"", fed, " loop { body: \"turn\" times: ", rounds, carries, " } }",
          network, "\nlayer { name: \"loss\" input: \"sum", count - 1, "\" reduce_sum {} }\nobjective: \"loss\"");
      EXPECT_EQ(BytesCopied(text, feeds, wanted, fetched, testing::Each(0)), 0);
    }
  }
}

// A multi-view of type II: round 0 reads the loop's input, which stays, as it is read again after the loop; the rounds
// after it read what alternates between two buffers, or, in training, what was stashed for the gradient.
TEST(RolledLoops, WhatALoopBeginsWithStays) {
  const std::string text = R"(
    block { name: "body" input: "x" input: "w" layer { name: "y" input: "$x" input: "$w" matmul {} } }
    batch: 2
    input { name: "z" shape { dim: [4, 4] } }
    input { name: "w" shape { dim: [4, 4] } }
    layer { name: "l" input: "z" input: "w" loop { body: "body" times: 7 carry { input: "x" output: "y" } } }
    layer { name: "again" input: "l" input: "z" mul {} }
    layer { name: "loss" input: "again" reduce_sum {} }
    objective: "loss"
    output: "l"
    output: "again")";
  EXPECT_EQ(
      BytesCopied(text, {{"z", Waves(32, 0)}, {"w", Waves(32, 1)}}, {"z", "w"}, {"loss", "l", "again"}, ElementsAre(0)),
      0);
  CompileOptions options{.training = false, .loops = LoopRule::kRolled};
  const auto session = MakeSession(text, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_THAT(Rolled((*session)->compiled()).at("l")->CarryBuffers(), ElementsAre(2));
}

// What a round reads of a sequence whose slices are not one range of bytes, and its number, are carried on to the next
// rounds from where they were read: each slice is copied once.
TEST(RolledLoops, SlicesAndNumbersThatAreCarried) {
  const std::string text = R"(
    block { name: "body" input: "x" input: "s" input: "before" input: "twice" input: "t" input: "number"
      layer { name: "changes" input: "$s" input: "$twice" sub {} }
      layer { name: "p" input: "$x" input: "changes" mul {} }
      layer { name: "n" input: "$number" cast { dtype: FLOAT64 } }
      layer { name: "q" input: "p" input: "n" add {} }
      layer { name: "y" input: "q" input: "$before" add {} }
      output: "y" output: "$s" output: "$before" output: "$t" }
    batch: 2
    input { name: "x" shape { dim: 4 } }
    input { name: "s" shape { dim: [5, 4] } }
    input { name: "n" dtype: INT32 no_batch: true }
    layer { name: "l" input: "x" input: "s" input: "x" input: "x" input: "n" loop { body: "body" scan { input: "s" } index: "t"
      carry { input: "x" output: "y" } carry { input: "before" output: "s" } carry { input: "twice" output: "before" }
      carry { input: "number" output: "t" } } }
    layer { name: "two" input: "l" input: "l:1" add {} }
    layer { name: "sum" input: "two" input: "l:2" add {} }
    layer { name: "loss" input: "sum" reduce_sum {} }
    objective: "loss"
    output: "l" output: "l:1" output: "l:2" output: "l:3")";
  const std::map<std::string, Numbers> feeds = {{"x", Waves(8, 0)}, {"s", Waves(40, 1)}, {"n", {9}}};
  const int64_t slices = 5 * 2 * 4 * 8;
  // Of the forward loop, whose carried slices lie in three buffers: they are read until the second round after theirs.
  // The gradient's rounds write what they owe to each slice, once.
  EXPECT_EQ(BytesCopied(text, feeds, {"x", "s"}, {"loss", "l", "l:1", "l:2", "l:3"}, ElementsAre(testing::_, 3, 0, 2)),
            2 * slices);
}

// Each of these carries lies in more buffers than it needs, so that all alternate with the longest.
TEST(RolledLoops, DelayLinesOfManyLengths) {
  const std::vector<int> lengths = {7, 11, 13, 17};
  constexpr int kRounds = 5000;
  CompileOptions options{.training = false, .loops = LoopRule::kRolled};
  std::vector<std::string> fetched;
  for (int i = 0; i < 7 + 11 + 13 + 17; ++i) fetched.push_back(i == 0 ? "l" : absl::StrCat("l:", i));
  options.fetch = fetched;
  const auto session = MakeUnfed(DelayLines(lengths, kRounds, R"(name: "y" input: "x" scale { offset: 1 })"), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const RolledLoop& loop = *Rolled((*session)->compiled()).at("l");
  std::vector<int> buffers = loop.CarryBuffers();
  std::erase(buffers, 0);
  EXPECT_THAT(buffers, ElementsAre(8, 16, 16, 32));
  for (int i = 0; i < 17; ++i) {
    ASSERT_TRUE((*session)->Feed(absl::StrCat("a", i), Numbers(16, 10'000 * i)).ok());
  }
  ASSERT_TRUE((*session)->Run().ok());
  auto name = fetched.begin();
  for (const int length : lengths) {
    for (int place = 0; place < length; ++place) {
      // What is here began `kRounds` places earlier, and each time around one was added.
      const int begun = ((place - kRounds) % length + length) % length;
      const int around = (begun + kRounds - place) / length;
      EXPECT_EQ(*(*session)->Fetch(*name), Numbers(16, 10'000 * begun + around)) << length << ", " << place;
      ++name;
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
    const std::string path = absl::StrCat(testing::TempDir(), "/rolled_loops.plan");
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

// Gradients compute rounds anew, in chunks: they are the same but for the association of sums, and the same to the bit
// whether the loops are rolled or not.
TEST(RolledLoops, RoundsAreComputedAnew) {
  const std::vector<std::string> gradients = {"x", "h", "c", "lstm.ih.weight", "lstm.hh.weight", "lstm.ih.bias"};
  std::vector<std::string> fetched = {"loss", "lstm:2"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const bool time_first : {false, true}) {
    SCOPED_TRACE(time_first);
    const std::string text = Lstm(4, 12, 16, time_first);
    CompileOptions options = InDouble(gradients);
    options.loops = LoopRule::kRolled;
    const std::vector<Numbers> kept = Train(text, options, fetched);
    options.recompute_rounds = kSquareRoot;
    const std::vector<Numbers> anew = Train(text, options, fetched);
    ASSERT_EQ(anew.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_THAT(anew[i], Pointwise(DoubleNear(1e-14), kept[i])) << i;
    options.loops = LoopRule::kUnrolled;
    options.disabled_passes = {"common_subexpressions"};  // which would merge the rounds with the first ones
    EXPECT_EQ(Train(text, options, fetched), anew);
  }
}

// Chunks of any length: values and what flows back along the rounds have the bits of a loop that keeps everything, and
// everything has those of the straight line.
TEST(RolledLoops, TheLastChunkMayBeShorter) {
  const std::vector<std::string> along = {"x", "h", "c"},
                                 added_up = {"lstm.ih.weight", "lstm.hh.weight", "lstm.ih.bias"};
  std::vector<std::string> gradients = along, fetched = {"loss", "lstm:2"};
  gradients.insert(gradients.end(), added_up.begin(), added_up.end());
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  const size_t same = 2 + along.size();  // the first of what is fetched
  for (const bool time_first : {false, true}) {
    for (const bool reverse : {false, true}) {
      std::string text = Lstm(4, 13, 16, time_first);
      if (reverse)
        text =
            absl::StrReplaceAll(text, {{"input: \"x\" axis: 0 }", "input: \"x\" axis: 0 reverse: true }"},
                                       {"scan { input: \"x\"  }", "scan { input: \"x\" reverse: true }"},
                                       {"collect { output: \"h_next\"", "collect { reverse: true output: \"h_next\""}});
      ASSERT_EQ(absl::StrReplaceAll(text, {{"reverse: true", ""}}) != text, reverse);
      // By plain kernels without passes, so that a product has the same bits in a row, whatever the number of rows.
      CompileOptions options = AsWritten(InDouble(gradients));
      options.loops = LoopRule::kRolled;
      const std::vector<Numbers> kept = Train(text, options, fetched);
      for (const int64_t chunk : {kSquareRoot, int64_t{1}, int64_t{5}, int64_t{12}, int64_t{13}, int64_t{14}}) {
        SCOPED_TRACE(absl::StrCat("steps first: ", time_first, ", reverse: ", reverse, ", chunks of ", chunk));
        options.loops = LoopRule::kRolled;
        options.recompute_rounds = chunk;
        const std::vector<Numbers> anew = Train(text, options, fetched);
        ASSERT_EQ(anew.size(), kept.size());
        for (size_t i = 0; i < kept.size(); ++i) {
          const bool exact = i < same;  // of the second step, whose parameters have other bits, nothing is
          EXPECT_THAT(anew[i], Pointwise(DoubleNear(exact ? 0 : 1e-14), kept[i])) << i;
        }
        options.loops = LoopRule::kUnrolled;
        EXPECT_EQ(Train(text, options, fetched), anew);
        options.loops = LoopRule::kRolled;
        options.memory.streams = 2;
        EXPECT_EQ(Train(text, options, fetched, ExecutorKind::kReplay), anew);
        options.memory.streams = 1;
      }
    }
  }
}

// With all passes and kernels, in chunks that end early, products of the slices of a chunk are done at once.
TEST(RolledLoops, WhatAChunkReadsIsMultipliedAtOnce) {
  const std::vector<std::string> gradients = {"x", "h", "c", "lstm.ih.weight", "lstm.hh.weight", "lstm.ih.bias"};
  std::vector<std::string> fetched = {"loss", "lstm:2"};
  for (const std::string& name : gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const bool time_first : {false, true}) {
    SCOPED_TRACE(time_first);
    const std::string text = Lstm(4, 13, 16, time_first);
    const auto dense_in_a_round = [&](const std::set<std::string>& disabled) {
      CompileOptions options = InDouble(gradients);
      options.loops = LoopRule::kRolled;
      options.recompute_rounds = 5;
      options.disabled_passes = disabled;
      const absl::StatusOr<Graph> graph = GraphAfter(text, "13_normal_form", options);
      EXPECT_TRUE(graph.ok()) << graph.status().message();
      std::vector<int> counts;  // of the loop of chunks of 5, and of that of the last 3: in a chunk, and in a round
      for (const NodeId id : graph->ProgramOrder()) {
        if (graph->node(id).subgraphs.empty()) continue;
        const Graph* body = graph->node(id).subgraphs[0].get();
        for (int depth = 0; depth < 2; ++depth) {
          int count = 0;
          const Graph* inside = nullptr;
          for (const NodeId inner : body->ProgramOrder()) {
            count += body->node(inner).op == "dense" ? 1 : 0;
            if (!body->node(inner).subgraphs.empty()) inside = body->node(inner).subgraphs[0].get();
          }
          counts.push_back(count);
          body = inside;
        }
      }
      return counts;
    };
    EXPECT_THAT(dense_in_a_round({}), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(dense_in_a_round({"hoist_loop_inputs"}), ElementsAre(0, 2, 0, 2));

    CompileOptions options = InDouble(gradients);
    options.loops = LoopRule::kRolled;
    const std::vector<Numbers> kept = Train(text, options, fetched);
    options.recompute_rounds = 5;
    const std::vector<Numbers> anew = Train(text, options, fetched);
    ASSERT_EQ(anew.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_THAT(anew[i], Pointwise(DoubleNear(1e-14), kept[i])) << i;
    options.loops = LoopRule::kUnrolled;
    options.disabled_passes = {"common_subexpressions"};  // which would merge the rounds with the first ones
    EXPECT_EQ(Train(text, options, fetched), anew);
    // The same bits as without it.
    CompileOptions plain = AsWritten(InDouble(gradients));
    plain.loops = LoopRule::kRolled;
    plain.recompute_rounds = 5;
    const std::vector<Numbers> in_rounds = Train(text, plain, fetched);
    plain.disabled_passes.erase("hoist_loop_inputs");
    const std::vector<Numbers> before = Train(text, plain, fetched);
    ASSERT_EQ(before.size(), in_rounds.size());
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(before[i], in_rounds[i]) << i;  // but sums over rounds
    for (size_t i = 5; i < before.size(); ++i) EXPECT_THAT(before[i], Pointwise(DoubleNear(1e-14), in_rounds[i])) << i;
  }
}

TEST(RolledLoops, ComputingRoundsAnewTakesLessMemory) {
  const std::string text = Lstm(16, 900, 64, /*time_first=*/true);
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  ASSERT_TRUE(loaded.ok());
  const auto compile = [&](int64_t recompute) {
    absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                                {.training = true, .recompute_rounds = recompute});
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return *std::move(compiled);
  };
  const Compiled kept = compile(0), anew = compile(kSquareRoot);
  ASSERT_EQ(anew.loops.size(), 1);
  EXPECT_EQ(anew.loops[0].chunk, 30);
  // What is stashed are the 4 gates and 2 values of each step, beside a few sequences. Where all is kept the loop is a
  // straight line, whose gates lie where the product of all inputs was, and their gradients, too.
  EXPECT_LT(2 * anew.planned_bytes(), kept.planned_bytes());
  // A prime number of steps takes no more, but for the gradient of weights of a second loop.
  const std::string prime = Lstm(16, 907, 64, /*time_first=*/true);
  const absl::StatusOr<LoadedNetwork> of_prime = LoadNetworkText(prime, "test");
  ASSERT_TRUE(of_prime.ok());
  const absl::StatusOr<Compiled> odd = Compile(of_prime->network, of_prime->source_map, OpRegistry::Builtin(),
                                               {.training = true, .recompute_rounds = kSquareRoot});
  ASSERT_TRUE(odd.ok()) << odd.status().message();
  EXPECT_EQ(odd->loops[0].chunk, 30);
  const int64_t weights = 2 * 64 * 256 * 4;
  EXPECT_LE(odd->planned_bytes(), anew.planned_bytes() * 907 / 900 + 2 * weights);
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
