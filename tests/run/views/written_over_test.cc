// Parts that are written over: what is made of a part in place lies where the part is, if nobody else reads it, and is
// joined there without a copy.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/run/train_util.h"
#include "tests/run/views/views_util.h"

namespace snug::core {
namespace {

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
