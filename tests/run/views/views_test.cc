// Parts and joins that need no copy: where they lie, that training gives the same bits with and without them, under
// every strategy, on several streams, without a plan and with freed bytes poisoned, and that they take less memory.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/base/status.h"
#include "engine/compile/memory/plan_memory.h"
#include "tests/control/lstm_cell.h"
#include "tests/run/train_util.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

constexpr char kInputs[] = R"(
name: "views"
input { name: "x" shape { dim: [64] } }
input { name: "label" dtype: INT32 max_value: 8 }
)";

constexpr char kHead[] = R"(
layer { name: "fc" input: "last" dense { units: 8 } }
layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
objective: "loss"
)";

// Of one sample, all of it is views.
const std::string kFeatures = absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 32 } }
layer { name: "ra" input: "a" relu {} }
layer { name: "b" input: "x" dense { units: 64 } }
layer { name: "rb" input: "b" tanh {} }
layer { name: "ab" input: "ra" input: "rb" concat {} }
layer { name: "c" input: "ab" dense { units: 32 } }
layer { name: "abc" input: "ab" input: "c" concat {} }
layer { name: "parts" input: "abc" split { parts: 2 } }
layer { name: "product" input: "parts:0" input: "parts:1" mul {} }
layer { name: "cut" input: "abc" slice { axis: 1 begin: 16 end: 112 } }
layer { name: "r" input: "abc" relu {} }
layer { name: "d" input: "cut" dense { units: 64 } }
layer { name: "e" input: "r" dense { units: 64 } }
layer { name: "sum" input: "product" input: "d" add {} }
layer { name: "last" input: "sum" input: "e" add {} }
)",
                                           kHead);

// Along the batch.
const std::string kRows = absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 64 } }
layer { name: "rows" input: "a" split { axis: 0 parts: 2 } }
layer { name: "top" input: "rows:0" tanh {} }
layer { name: "bottom" input: "rows:1" relu {} }
layer { name: "last" input: "bottom" input: "top" concat { axis: 0 } }
)",
                                       kHead);

// Parts that are written over and joined again, forward and backward: in the same sequence, and in another one.
const std::string kOver = absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 64 } }
layer { name: "rows" input: "a" split { axis: 0 parts: 4 } }
layer { name: "t0" input: "rows:0" tanh {} }
layer { name: "t1" input: "rows:1" relu {} }
layer { name: "t2" input: "rows:2" sigmoid {} }
layer { name: "t3" input: "rows:3" tanh {} }
layer { name: "all" input: "t0" input: "t1" input: "t2" input: "t3" concat { axis: 0 } }
layer { name: "turned" input: "all" split { axis: 0 parts: 2 } }
layer { name: "u0" input: "turned:0" tanh {} }
layer { name: "u1" input: "turned:1" tanh {} }
layer { name: "last" input: "u1" input: "u0" concat { axis: 0 } }
)",
                                       kHead);

// The same in the rounds of a loop, whose gates lie where the product of all slices was, and their gradients there,
// too.
const std::string kLoopOfRounds = absl::StrCat("batch: 4 ", test::LstmCell(16), R"(
input { name: "x" shape { dim: [5, 16] } }
input { name: "zeros" shape { dim: 16 } }
layer { name: "lstm" input: "x" input: "zeros" input: "zeros" loop { body: "cell" scan { input: "x" }
  carry { input: "h" output: "h_next" } carry { input: "c" output: "c_next" } collect { output: "h_next" } } }
layer { name: "squares" input: "lstm:2" square {} }
layer { name: "loss" input: "squares" reduce_mean {} }
objective: "loss"
)");

// Every op's kernel runs.
const OpRegistry& WithoutRanges() {
  static const OpRegistry* const registry = [] {
    auto* r = new OpRegistry;
    for (const OpDef* op : OpRegistry::Builtin().all()) {
      OpDef copy = *op;
      copy.output_in_input = nullptr;
      copy.input_in_output = nullptr;
      SNUG_CHECK_OK(r->AddAll(OpRegistry::Builtin().file_of(op->name), {copy}));
    }
    return r;
  }();
  return *registry;
}

CompileOptions OptionsWithoutFusion(int64_t batch, const MemoryOptions& memory) {
  CompileOptions options{.batch = batch, .threads = 2, .memory = memory};
  options.disabled_passes = {"fuse_activation"};  // so that every value is there by its name
  options.memory.planner = PlannerFor(memory.strategy);
  return options;
}

absl::StatusOr<Compiled> TryCompile(const std::string& text, const OpRegistry& registry,
                                    const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  SNUG_CHECK_OK(loaded.status());
  return Compile(loaded->network, loaded->source_map, registry, options);
}

Compiled CompileText(const std::string& text, int64_t batch, const OpRegistry& registry,
                     const MemoryOptions& memory = {}) {
  absl::StatusOr<Compiled> compiled = TryCompile(text, registry, OptionsWithoutFusion(batch, memory));
  SNUG_CHECK_OK(compiled.status());
  return *std::move(compiled);
}

bool Runs(const Compiled& compiled, const std::string& node) {
  const std::vector<std::string>& names = compiled.tasks.tasks.names;
  return std::find(names.begin(), names.end(), node) != names.end();
}

size_t IndexOf(const Compiled& compiled, const std::string& value) {
  const ValueId id = compiled.graph.FindValue(value);
  SNUG_CHECK_MSG(id.valid(), value);
  return static_cast<size_t>(id.index);
}

int32_t BufferOf(const Compiled& compiled, const std::string& value) {
  return compiled.tasks.buffer_of_value[IndexOf(compiled, value)];
}

int64_t OffsetOf(const Compiled& compiled, const std::string& value) {
  return compiled.tasks.offset_of_value[IndexOf(compiled, value)];
}

TEST(Views, PartsAndJoinsOfOneSampleLieInOneBuffer) {
  const Compiled compiled = CompileText(kFeatures, 1, OpRegistry::Builtin());
  for (const char* node : {"ab", "abc", "parts", "cut"}) EXPECT_FALSE(Runs(compiled, node)) << node;
  for (const char* value : {"ra", "rb", "ab", "c", "parts", "parts:1", "cut"}) {
    EXPECT_EQ(BufferOf(compiled, value), BufferOf(compiled, "abc")) << value;
  }
  EXPECT_EQ(OffsetOf(compiled, "ra"), 0);
  EXPECT_EQ(OffsetOf(compiled, "rb"), 32 * 4);
  EXPECT_EQ(OffsetOf(compiled, "c"), 96 * 4);
  EXPECT_EQ(OffsetOf(compiled, "parts:1"), 64 * 4);
  EXPECT_EQ(OffsetOf(compiled, "cut"), 16 * 4);
}

TEST(Views, WhatIsNotOneRangeIsCopied) {
  const Compiled compiled = CompileText(kFeatures, 2, OpRegistry::Builtin());
  for (const char* node : {"ab", "abc", "parts", "cut"}) EXPECT_TRUE(Runs(compiled, node)) << node;
  const Compiled rows = CompileText(kRows, 4, OpRegistry::Builtin());
  for (const char* node : {"rows", "last"}) EXPECT_FALSE(Runs(rows, node)) << node;
  EXPECT_EQ(OffsetOf(rows, "rows:1"), 2 * 64 * 4);
  EXPECT_EQ(OffsetOf(rows, "top"), 2 * 64 * 4);
}

TEST(Views, WhatDoesNotBeginOnACacheLineIsCopied) {
  const Compiled compiled = CompileText(absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 24 } }
layer { name: "b" input: "x" dense { units: 40 } }
layer { name: "ab" input: "a" input: "b" concat {} }
layer { name: "last" input: "ab" slice { axis: 1 begin: 8 } }
)",
                                                     kHead),
                                        1, OpRegistry::Builtin());
  EXPECT_TRUE(Runs(compiled, "ab"));
  EXPECT_TRUE(Runs(compiled, "last"));
}

// Of values that no step needs afterwards, with the layers of `text` in between.
Compiled CompileOverParts(const std::string& text, int64_t batch, const std::vector<std::string>& fetch = {}) {
  CompileOptions options = OptionsWithoutFusion(batch, {});
  options.training = false;
  options.fetch = fetch;
  absl::StatusOr<Compiled> compiled =
      TryCompile(absl::StrCat("name: \"over\" input { name: \"x\" shape { dim: 64 } }\n",
                              "layer { name: \"a\" input: \"x\" dense { units: 64 } }\n",
                              "layer { name: \"rows\" input: \"a\" split { axis: 0 parts: 2 } }\n", text,
                              "layer { name: \"out\" input: \"all\" dense { units: 64 } }\noutput: \"out\"\n"),
                 OpRegistry::Builtin(), options);
  SNUG_CHECK_OK(compiled.status());
  return *std::move(compiled);
}

constexpr char kTwoParts[] = R"(
layer { name: "top" input: "rows:0" tanh {} }
layer { name: "bottom" input: "rows:1" relu {} }
)";

TEST(Views, WhatIsMadeOfPartsInPlaceLiesWhereTheyAre) {
  const Compiled compiled = CompileOverParts(
      absl::StrCat(kTwoParts, "layer { name: \"all\" input: \"top\" input: \"bottom\" concat { axis: 0 } }\n"), 8);
  for (const char* node : {"rows", "all"}) EXPECT_FALSE(Runs(compiled, node)) << node;
  for (const char* value : {"rows", "top", "bottom", "all"}) {
    EXPECT_EQ(BufferOf(compiled, value), BufferOf(compiled, "a")) << value;
  }
  EXPECT_EQ(OffsetOf(compiled, "top"), 0);
  EXPECT_EQ(OffsetOf(compiled, "bottom"), 4 * 64 * 4);
  EXPECT_EQ(OffsetOf(compiled, "all"), 0);
}

TEST(Views, PartsThatOthersReadAreNotWrittenOver) {
  const auto expect_apart = [](const std::string& text, const std::vector<std::string>& fetch = {}) {
    const Compiled compiled = CompileOverParts(text, 8, fetch);
    EXPECT_FALSE(BufferOf(compiled, "top") == BufferOf(compiled, "rows") &&
                 OffsetOf(compiled, "top") == OffsetOf(compiled, "rows"))
        << text;
  };
  // The part, the whole, the part under another shape, and what the caller wants to see.
  expect_apart(absl::StrCat(kTwoParts, R"(
layer { name: "again" input: "rows:0" input: "bottom" add {} }
layer { name: "all" input: "top" input: "again" concat { axis: 0 } }
)"));
  expect_apart(absl::StrCat(kTwoParts, R"(
layer { name: "both" input: "top" input: "bottom" concat { axis: 0 } }
layer { name: "all" input: "both" input: "a" add {} }
)"));
  expect_apart(absl::StrCat(kTwoParts, R"(
layer { name: "shape" input: "rows:0" reshape { dim: [8, 8] } }
layer { name: "same" input: "shape" reshape { dim: 64 } }
layer { name: "sum" input: "same" input: "bottom" add {} }
layer { name: "all" input: "top" input: "sum" concat { axis: 0 } }
)"));
  const std::string joined =
      absl::StrCat(kTwoParts, "layer { name: \"all\" input: \"top\" input: \"bottom\" concat { axis: 0 } }\n");
  expect_apart(joined, {"rows"});
  expect_apart(joined, {"a"});
}

TEST(Views, PartsInAnotherSequenceAreJoinedByACopy) {
  const Compiled compiled = CompileOverParts(
      absl::StrCat(kTwoParts, "layer { name: \"all\" input: \"bottom\" input: \"top\" concat { axis: 0 } }\n"), 8);
  EXPECT_TRUE(Runs(compiled, "all") || BufferOf(compiled, "top") != BufferOf(compiled, "a"));
  EXPECT_NE(BufferOf(compiled, "all"), BufferOf(compiled, "a"));
}

// The gradient of batch norm + add + relu has two outputs that may lie where its input is. One is written over that
// part of a joined gradient, so the other is not offered the same bytes, though the part takes as many lines as the
// whole.
TEST(Views, OfTwoOutputsOneIsWrittenOverAPart) {
  for (const std::string& strategy : AllStrategies()) {
    const absl::StatusOr<Compiled> compiled =
        TryCompile(R"(
name: "bn"
input { name: "x" shape { dim: [4] } }
input { name: "w" shape { dim: [16] } }
input { name: "k" shape { dim: [4] } }
layer { name: "z" input: "w" dense { units: 4 } }
layer { name: "bn" input: "x" batch_norm {} }
layer { name: "sum" input: "bn" input: "z" add {} }
layer { name: "r" input: "sum" relu {} }
layer { name: "k1" input: "k" slice { axis: 0 begin: 0 end: 1 } }
layer { name: "cat" input: "r" input: "k1" concat { axis: 0 } }
layer { name: "sq" input: "cat" square {} }
layer { name: "m" input: "sq" reduce_mean {} }
objective: "m"
output: "r"
)",
                   OpRegistry::Builtin(), {.batch = 3, .memory = {.strategy = strategy}});
    EXPECT_TRUE(compiled.ok()) << strategy << ": " << compiled.status();
  }
}

TEST(Views, RoundsWriteWhatTheyKeepOverWhatWasMadeForAll) {
  const Compiled compiled = CompileText(kLoopOfRounds, 4, OpRegistry::Builtin());
  const int32_t product = BufferOf(compiled, "lstm/ih");
  for (const char* node : {"lstm/scan0", "lstm/gradient/collect0/rows"}) EXPECT_FALSE(Runs(compiled, node)) << node;
  for (int round = 0; round < 5; ++round) {
    const std::string gates = absl::StrCat("lstm/", round, "/h_next/cell:2");
    const std::string gradient = absl::StrCat("lstm/gradient/", round, "/h_next/cell/lstm_cell_grad");
    for (const std::string& value : {gates, gradient}) {
      EXPECT_EQ(BufferOf(compiled, value), product) << value;
      EXPECT_EQ(OffsetOf(compiled, value), round * 4 * 64 * 4) << value;
    }
  }
  EXPECT_LT(compiled.executable.memory.total_bytes(),
            CompileText(kLoopOfRounds, 4, WithoutRanges()).executable.memory.total_bytes());
}

// It would keep all of the rest.
TEST(Views, ASmallPartIsCopied) {
  const Compiled compiled = CompileText(absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 64 } }
layer { name: "last" input: "a" slice { axis: 1 begin: 16 end: 32 } }
)",
                                                     kHead),
                                        1, OpRegistry::Builtin());
  EXPECT_TRUE(Runs(compiled, "last"));
}

// What is fed, and what lies elsewhere already, stays where it is.
TEST(Views, InputsAndPartsAreNotMoved) {
  const Compiled compiled = CompileText(absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 64 } }
layer { name: "fed" input: "a" input: "x" concat {} }
layer { name: "twice" input: "a" input: "a" concat {} }
layer { name: "last" input: "fed" input: "twice" add {} }
)",
                                                     kHead),
                                        1, OpRegistry::Builtin());
  EXPECT_TRUE(Runs(compiled, "fed"));
  EXPECT_TRUE(Runs(compiled, "twice"));
}

// All that three steps leave behind, bit for bit.
std::vector<std::string> TrainToBits(Compiled compiled, ExecutorKind engine = ExecutorKind::kReplay,
                                     bool poison = false) {
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(std::move(compiled), {.seed = 3, .engine = engine, .poison = poison});
  SNUG_CHECK_OK(session.status());
  std::vector<std::string> results;
  const auto bytes_of = [](const Session::View& view) {
    return std::string(reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.type->size_bytes()));
  };
  for (uint64_t step = 0; step < 3; ++step) {
    SNUG_CHECK_OK(FeedRandom(**session, OpRegistry::Builtin(), step));
    SNUG_CHECK_OK((*session)->Run());
    for (const Endpoint& output : (*session)->compiled().executable.outputs) {
      results.push_back(bytes_of(*(*session)->Output(output.name)));
    }
  }
  for (const Variable& variable : (*session)->compiled().graph.variables()) {
    const absl::StatusOr<Session::View> view = (*session)->FindVariable(variable.name);
    if (view.ok()) results.push_back(bytes_of(*view));
  }
  return results;
}

std::vector<std::string> BitsOfCopies(const std::string& text, int64_t batch) {
  return TrainToBits(CompileText(text, batch, WithoutRanges(), {.strategy = "none"}));
}

void ExpectSameBits(const std::string& text, int64_t batch, bool every_strategy) {
  const std::vector<std::string> truth = BitsOfCopies(text, batch);
  for (const std::string& name : AllStrategies()) {
    if (!every_strategy && name != "none" && name != "best") continue;
    const Compiled compiled = CompileText(text, batch, OpRegistry::Builtin(), {.strategy = name});
    EXPECT_TRUE(TrainToBits(compiled) == truth) << name << ", batch " << batch << text;
    EXPECT_TRUE(TrainToBits(compiled, ExecutorKind::kSerial, /*poison=*/true) == truth)
        << name << ", poisoned, batch " << batch << text;
  }
}

// On several streams, by plans with waits for bytes and without, by either engine; and without a plan.
void ExpectSameBitsSideBySide(const std::string& text, int64_t batch, bool every_policy) {
  const std::vector<std::string> truth = BitsOfCopies(text, batch);
  const auto expect = [&](const MemoryOptions& memory, ExecutorKind engine) {
    EXPECT_TRUE(TrainToBits(CompileText(text, batch, OpRegistry::Builtin(), memory), engine) == truth)
        << memory.strategy << " " << memory.stream_policy << ", " << memory.streams << " streams, engine "
        << ExecutorName(engine) << text;
  };
  for (const int streams : {2, 4}) {
    for (const absl::string_view policy : StreamPolicies()) {
      if (!every_policy && policy != "serial" && policy != "waitless") continue;
      for (const char* strategy : {"both", "best"}) {
        const MemoryOptions memory{.strategy = strategy, .streams = streams, .stream_policy = std::string(policy)};
        expect(memory, ExecutorKind::kReplay);
        expect(memory, ExecutorKind::kDynamic);
      }
    }
  }
  for (const bool inplace : {true, false}) {
    expect({.strategy = "dynamic", .dynamic = {.inplace = inplace}}, ExecutorKind::kSerial);
    for (const int streams : {1, 2, 4}) {
      expect({.strategy = "dynamic", .streams = streams, .dynamic = {.inplace = inplace}}, ExecutorKind::kDynamic);
    }
  }
}

TEST(Views, TrainingGivesTheSameBits) {
  for (const int64_t batch : {1, 2}) ExpectSameBits(kFeatures, batch, /*every_strategy=*/true);
  for (const std::string* text : {&kRows, &kOver, &kLoopOfRounds}) ExpectSameBits(*text, 4, /*every_strategy=*/true);
}

TEST(Views, OnStreamsAndWithoutAPlanTrainingGivesTheSameBits) {
  ExpectSameBitsSideBySide(kFeatures, 1, /*every_policy=*/true);
  for (const std::string* text : {&kRows, &kOver, &kLoopOfRounds}) {
    ExpectSameBitsSideBySide(*text, 4, /*every_policy=*/true);
  }
}

// What is fetched may be a part, or be joined.
TEST(Views, AreFetchedFromWhereTheyLie) {
  CompileOptions options = OptionsWithoutFusion(1, {});
  options.fetch = {"rb", "ab", "parts:1", "cut"};
  const absl::StatusOr<Compiled> with = TryCompile(kFeatures, OpRegistry::Builtin(), options);
  const absl::StatusOr<Compiled> without = TryCompile(kFeatures, WithoutRanges(), options);
  ASSERT_TRUE(with.ok() && without.ok()) << with.status().message();
  EXPECT_LT(with->tasks.tasks.size(), without->tasks.tasks.size());
  EXPECT_TRUE(TrainToBits(*with) == TrainToBits(*without));
  EXPECT_TRUE(TrainToBits(*with, ExecutorKind::kSerial, /*poison=*/true) == TrainToBits(*without));
  options.memory.strategy = "dynamic";
  const absl::StatusOr<Compiled> dynamic = TryCompile(kFeatures, OpRegistry::Builtin(), options);
  ASSERT_TRUE(dynamic.ok()) << dynamic.status().message();
  EXPECT_TRUE(TrainToBits(*dynamic, ExecutorKind::kSerial) == TrainToBits(*without));
}

const Step& StepOf(const Compiled& compiled, const std::string& node) {
  const std::vector<Step>& steps = compiled.executable.steps;
  const auto step =
      std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return compiled.graph.node(s.node).name == node; });
  SNUG_CHECK_MSG(step != steps.end(), node);
  return *step;
}

bool Conflict(const Compiled& compiled, const std::string& a, const std::string& b) {
  for (const Access& x : StepOf(compiled, a).accesses) {
    for (const Access& y : StepOf(compiled, b).accesses) {
      if (Conflicts(x, y)) return true;
    }
  }
  return false;
}

// The first writer comes before all that use the buffer; the others wait for nobody, and only who reads what they write
// waits for them.
TEST(Views, PartsAreWrittenSideBySide) {
  const Compiled compiled = CompileText(absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 32 } }
layer { name: "b" input: "x" dense { units: 64 } }
layer { name: "c" input: "x" dense { units: 32 } }
layer { name: "abc" input: "a" input: "b" input: "c" concat {} }
layer { name: "side" input: "b" tanh {} }
layer { name: "whole" input: "abc" dense { units: 64 } }
layer { name: "last" input: "side" input: "whole" add {} }
)",
                                                     kHead),
                                        1, OpRegistry::Builtin(), {.strategy = "none"});
  ASSERT_FALSE(Runs(compiled, "abc"));
  for (const char* node : {"b", "c", "side", "whole"}) EXPECT_TRUE(Conflict(compiled, "a", node)) << node;
  EXPECT_FALSE(Conflict(compiled, "b", "c"));
  EXPECT_TRUE(Conflict(compiled, "b", "side"));
  EXPECT_FALSE(Conflict(compiled, "c", "side"));
  for (const char* node : {"b", "c"}) EXPECT_TRUE(Conflict(compiled, node, "whole")) << node;
}

TEST(Views, KernelsTouchOnlyWhatTheyDeclare) {
  for (const auto& [text, batch] :
       {std::pair(kFeatures, 1), std::pair(kRows, 4), std::pair(kOver, 4), std::pair(kLoopOfRounds, 4)}) {
    CompileOptions options = OptionsWithoutFusion(batch, {});
    options.threads = 1;
    absl::StatusOr<Compiled> compiled = TryCompile(text, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    auto session =
        Session::Create(*std::move(compiled), {.seed = 3, .engine = ExecutorKind::kSerial, .check_access = true});
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 3).ok());
    const absl::Status status = (*session)->Run();
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(Views, APlanOfOtherTasksIsRefused) {
  const std::string path = absl::StrCat(testing::TempDir(), "/views_test_plan.pbtxt");
  ASSERT_TRUE(SavePlan(CompileText(kFeatures, 1, WithoutRanges()), path).ok());
  CompileOptions options = OptionsWithoutFusion(1, {.plan_file = path});
  EXPECT_TRUE(TryCompile(kFeatures, WithoutRanges(), options).ok());
  EXPECT_THAT(std::string(TryCompile(kFeatures, OpRegistry::Builtin(), options).status().message()),
              testing::HasSubstr("the plan is for another choice of kernels"));
  const Compiled with = CompileText(kFeatures, 1, OpRegistry::Builtin());
  ASSERT_TRUE(SavePlan(with, path).ok());
  EXPECT_FALSE(TryCompile(kFeatures, WithoutRanges(), options).ok());
  const absl::StatusOr<Compiled> loaded = TryCompile(kFeatures, OpRegistry::Builtin(), options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(TrainToBits(*loaded) == TrainToBits(with));
}

int64_t TotalBytes(const std::string& text, const OpRegistry& registry, int64_t batch, const char* strategy) {
  return CompileText(text, batch, registry, {.strategy = strategy}).executable.memory.total_bytes();
}

TEST(Views, TakeLessMemoryWhereNothingIsShared) {
  for (const auto& [text, batch] :
       {std::pair(kFeatures, 1), std::pair(kRows, 4), std::pair(kOver, 4), std::pair(kLoopOfRounds, 4)}) {
    EXPECT_LT(TotalBytes(text, OpRegistry::Builtin(), batch, "none"), TotalBytes(text, WithoutRanges(), batch, "none"))
        << text;
    EXPECT_LE(TotalBytes(text, OpRegistry::Builtin(), batch, "best"), TotalBytes(text, WithoutRanges(), batch, "best"))
        << text;
  }
}

// Joining is the moment of the peak, and no kernel here has a workspace: on any machine, with any library, the copy
// costs one of its parts, since the other lies where the input was.
TEST(Views, TakeLessMemoryThanTheBestPlanWithACopy) {
  constexpr int64_t kPart = 2048;
  const std::string joined = R"(
name: "joined"
input { name: "x" shape { dim: 2048 } }
layer { name: "left" input: "x" tanh {} }
layer { name: "right" input: "x" relu {} }
layer { name: "both" input: "left" input: "right" concat {} }
layer { name: "out" input: "both" sigmoid {} }
output: "out"
)";
  CompileOptions options = OptionsWithoutFusion(1, {});
  options.training = false;
  const absl::StatusOr<Compiled> with = TryCompile(joined, OpRegistry::Builtin(), options);
  const absl::StatusOr<Compiled> without = TryCompile(joined, WithoutRanges(), options);
  ASSERT_TRUE(with.ok() && without.ok()) << with.status().message();
  EXPECT_EQ(with->executable.memory.total_bytes() + kPart * 4, without->executable.memory.total_bytes());
}

TEST(Views, TakeNoMoreMemoryInTheModels) {
  for (const char* file : {"models/gpt_small.pbtxt", "tests/golden/parity/transformer.pbtxt"}) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkFile(test::SourcePath(file));
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    for (const int64_t batch : {1, 2}) {
      const auto bytes = [&](const OpRegistry& registry) {
        const absl::StatusOr<Compiled> compiled =
            Compile(loaded->network, loaded->source_map, registry, OptionsWithoutFusion(batch, {}));
        SNUG_CHECK_OK(compiled.status());
        return compiled->executable.memory.total_bytes();
      };
      EXPECT_LE(bytes(OpRegistry::Builtin()), bytes(WithoutRanges())) << file << ", batch " << batch;
    }
  }
}

// Layers of any kind on any earlier values, which makes views of views, joins of joins, and writers over what they
// show.
std::string RandomNetwork(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  struct Made {
    std::string name;
    int width;
  };
  std::vector<Made> made = {{"x", 64}};
  std::string text = kInputs;
  const auto add = [&](const std::string& inputs, const std::string& op, int width) {
    const std::string name = absl::StrCat("v", made.size());
    absl::StrAppend(&text, "layer { name: \"", name, "\" ", inputs, " ", op, " }\n");
    made.push_back({name, width});
  };
  const auto input = [](const Made& from) { return absl::StrCat(" input: \"", from.name, "\""); };
  for (int i = 0; i < 14; ++i) {
    const Made from = made[made.size() - 1 - below(std::min<size_t>(made.size(), 4))];
    switch (below(6)) {
      case 0:
        add(input(from), absl::StrCat("dense { units: ", 16 * (1 + below(4)), " }"), 0);
        break;
      case 1:
        add(input(from), below(2) == 0 ? "relu {}" : "tanh {}", from.width);
        break;
      case 2: {
        const Made& other = made[below(made.size())];
        add(input(from) + input(other), "concat {}", from.width + other.width);
        break;
      }
      case 3: {
        const int begin = static_cast<int>(8 * below(static_cast<size_t>(from.width) / 16));
        add(input(from), absl::StrCat("slice { axis: 1 begin: ", begin, " }"), from.width - begin);
        break;
      }
      case 4:
        add(input(from) + input(from), "mul {}", from.width);
        break;
      default:
        add(input(from), "scale { factor: 0.5 }", from.width);
        break;
    }
    if (made.back().width == 0) {  // dense: as its text says
      const size_t units = text.rfind("units: ");
      made.back().width = std::stoi(text.substr(units + 7));
    }
  }
  absl::StrAppend(&text, "layer { name: \"last\"", input(made.back()), " tanh {} }\n", kHead);
  return text;
}

TEST(Views, TakeNoMoreMemoryInRandomNetworks) {
  int views = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    const std::string text = RandomNetwork(seed);
    for (const bool training : {true, false}) {
      CompileOptions options = OptionsWithoutFusion(1, {});
      options.training = training;
      const absl::StatusOr<Compiled> with = TryCompile(text, OpRegistry::Builtin(), options);
      const absl::StatusOr<Compiled> without = TryCompile(text, WithoutRanges(), options);
      ASSERT_TRUE(with.ok() && without.ok()) << with.status().message();
      const int64_t bytes = with->executable.memory.total_bytes();
      views += with->tasks.tasks.size() < without->tasks.tasks.size();
      EXPECT_LE(bytes, without->executable.memory.total_bytes()) << text;
    }
  }
  EXPECT_GT(views, 80);  // or else little is shown
}

TEST(Views, RandomNetworksGiveTheSameBits) {
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    const std::string text = RandomNetwork(seed);
    ExpectSameBits(text, 1, /*every_strategy=*/false);
    if (seed % 5 == 0) ExpectSameBitsSideBySide(text, 1, /*every_policy=*/true);
  }
}

// Rows that are cut, changed in place and joined, in sequence and out of it, with readers of wholes and parts at any
// place. All that nobody reads is in the objective.
std::string RandomRows(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  struct Made {
    std::string name;
    int64_t rows;
    bool read = false;
  };
  std::string text = "name: \"rows\" input { name: \"x\" shape { dim: 16 } }\n";
  std::vector<Made> made;
  int layers = 0;
  const auto add = [&](const std::vector<size_t>& inputs, const std::string& op, int64_t rows, int outputs) {
    const std::string name = absl::StrCat("v", layers++);
    absl::StrAppend(&text, "layer { name: \"", name, "\"");
    for (const size_t i : inputs) {
      absl::StrAppend(&text, " input: \"", made[i].name, "\"");
      made[i].read = true;
    }
    absl::StrAppend(&text, " ", op, " }\n");
    for (int o = 0; o < outputs; ++o) made.push_back({outputs == 1 ? name : absl::StrCat(name, ":", o), rows});
  };
  made.push_back({"x", 8});
  add({0}, "dense { units: 16 }", 8, 1);
  for (int i = 0; i < 24; ++i) {
    size_t last = made.size() - 1 - below(std::min<size_t>(made.size() - 1, 4));  // never x
    while (last > 1 && made[last].read && below(8) > 0) --last;                   // mostly what nobody reads yet
    const size_t before = std::max<size_t>(1, last - 1);
    const int64_t rows = made[last].rows;
    switch (below(6)) {
      case 0:
      case 1:
        if (rows % 2 == 0) add({last}, "split { axis: 0 parts: 2 }", rows / 2, 2);
        break;
      case 2:
        if (before != last && made[before].rows + rows <= 8) {
          add(below(3) > 0 ? std::vector<size_t>{before, last} : std::vector<size_t>{last, before},
              "concat { axis: 0 }", made[before].rows + rows, 1);
        }
        break;
      case 3:
        if (before != last && made[before].rows == rows) add({last, before}, "add {}", rows, 1);
        break;
      default: {
        constexpr const char* kOps[] = {"relu {}", "tanh {}", "sigmoid {}", "scale { factor: 0.5 }"};
        add({last}, kOps[below(4)], rows, 1);
        if (before != last && !made[before].read) add({before}, kOps[below(4)], made[before].rows, 1);
      }
    }
  }
  std::vector<std::string> means;
  for (const Made& one : made) {
    if (one.read) continue;
    absl::StrAppend(&text, "layer { name: \"s", means.size(), "\" input: \"", one.name, "\" square {} }\n");
    absl::StrAppend(&text, "layer { name: \"m", means.size(), "\" input: \"s", means.size(), "\" reduce_mean {} }\n");
    means.push_back(absl::StrCat("m", means.size()));
  }
  for (size_t i = 1; i < means.size(); ++i) {
    absl::StrAppend(&text, "layer { name: \"n", i, "\" input: \"", i == 1 ? "m0" : absl::StrCat("n", i - 1),
                    "\" input: \"m", i, "\" add {} }\n");
  }
  return absl::StrCat(text, "objective: \"", means.size() == 1 ? "m0" : absl::StrCat("n", means.size() - 1), "\"\n");
}

// The nodes that write over a part of what they read.
int WritersOverParts(const Compiled& compiled) {
  int writers = 0;
  const StepTasks& tasks = compiled.tasks;
  const auto index = [](ValueId value) { return static_cast<size_t>(value.index); };
  for (const NodeId id : tasks.node_of_task) {
    const Node& node = compiled.graph.node(id);
    writers += std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      const int32_t buffer = tasks.buffer_of_value[index(output)];
      return buffer >= 0 && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
               return input.valid() && tasks.buffer_of_value[index(input)] == buffer &&
                      tasks.offset_of_value[index(input)] == tasks.offset_of_value[index(output)];
             });
    });
  }
  return writers;
}

TEST(Views, RandomRowsThatAreWrittenOverGiveTheSameBits) {
  int networks = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    const std::string text = RandomRows(seed);
    const Compiled compiled = CompileText(text, 8, OpRegistry::Builtin());
    networks += WritersOverParts(compiled) > 0 ? 1 : 0;
    ExpectSameBits(text, 8, /*every_strategy=*/false);
    if (seed % 10 == 0) ExpectSameBitsSideBySide(text, 8, /*every_policy=*/true);
  }
  EXPECT_GE(networks, 8);  // or else little is shown
}

}  // namespace
}  // namespace snug::core
