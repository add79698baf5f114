// Parts and joins that need no copy: where they lie, that training gives the same bits with and without them, under
// every strategy, on several streams, without a plan and with freed bytes poisoned, and that they take less memory.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/memory/plan_memory.h"
#include "tests/run/train_util.h"
#include "tests/run/views/views_util.h"
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

// Parts that end where the whole does, which is no multiple of 64 bytes.
const std::string kOdd = absl::StrCat(kInputs, R"(
layer { name: "a" input: "x" dense { units: 37 } }
layer { name: "ra" input: "a" tanh {} }
layer { name: "head" input: "ra" slice { axis: 1 begin: 0 end: 32 } }
layer { name: "tail" input: "ra" slice { axis: 1 begin: 32 end: 37 } }
layer { name: "b" input: "tail" dense { units: 32 } }
layer { name: "last" input: "head" input: "b" add {} }
)",
                                      kHead);

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
  for (const auto& [text, batch] : {std::pair(kFeatures, 1), std::pair(kRows, 4), std::pair(kOver, 4),
                                    std::pair(kOdd, 1), std::pair(kLoopOfRounds, 4)}) {
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
  const std::string path = absl::StrCat(testing::TempDir(), "/views_test_", getpid(), ".plan.pbtxt");
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

}  // namespace
}  // namespace snug::core
