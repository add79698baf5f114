// State that goes on from step to step: what it is then, that a bad step leaves it alone, and what cannot be.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "proto/network.pb.h"
#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// h' = h / 2 + x w over two rounds, from one step to the next. w stays as it is.
constexpr char kHalved[] = R"(
batch: 2
input { name: "x" shape { dim: [2, 1] } }
block { name: "cell" input: ["x", "h"]
  layer { name: "half" input: "$h" scale { factor: 0.5 } }
  layer { name: "in" input: "$x" dense { units: 1 bias: false } param { name: "weight" init { kind: CONSTANT value: 3 } } }
  layer { name: "next" input: "half" input: "in" add {} }
  output: "next" }
layer { name: "h" input: "x" state { dim: 1 next: "rnn" } }
layer { name: "rnn" input: ["x", "h"] loop { body: "cell" scan { input: "x" } carry { input: "h" output: "next" } } }
layer { name: "loss" input: "rnn" reduce_sum {} }
objective: "loss"
output: "rnn"
optimizer { learning_rate: 0 sgd {} }
)";

TEST(State, GoesOnWhereItEnded) {
  CompileOptions options = InDouble({"rnn.in.weight"});
  const auto session = MakeUnfed(kHalved, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Feed("x", Numbers{1, 1, 4, 0}).ok());
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(*(*session)->Fetch("rnn"), ElementsAre(4.5, 6));
  EXPECT_THAT(*(*session)->GetVariable("h.carried_state"), ElementsAre(4.5, 6));
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(*(*session)->Fetch("rnn"), ElementsAre(4.5 / 4 + 4.5, 6.0 / 4 + 6));
  // Of w in this step alone, not of what the state owes to it.
  EXPECT_THAT(*(*session)->Fetch("d(rnn.in.weight)"), ElementsAre(1.5 + 2));
}

TEST(State, ABadStepLeavesItAlone) {
  const auto session = MakeUnfed(kHalved, InDouble());
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Feed("x", Numbers{1, 1, 4, 0}).ok());
  ASSERT_TRUE((*session)->Run().ok());
  ASSERT_TRUE((*session)->Feed("x", Numbers{1, std::numeric_limits<double>::infinity(), 4, 0}).ok());
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(*(*session)->GetVariable("h.carried_state"), ElementsAre(4.5, 6));
}

TEST(State, IsZeroWhereNothingIsTrained) {
  CompileOptions options = InDouble();
  options.training = false;
  const auto session = MakeUnfed(kHalved, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Feed("x", Numbers{1, 1, 4, 0}).ok());
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE((*session)->Run().ok());
    EXPECT_THAT(*(*session)->Fetch("rnn"), ElementsAre(4.5, 6));
  }
}

// Step by step, what the head of a model over bytes reads: `width` numbers for each token of the one row.
std::vector<Numbers> Remembered(const std::string& model, const std::string& output,
                                const std::vector<Numbers>& steps) {
  std::vector<Numbers> found;
  absl::StatusOr<LoadedNetwork> loaded = LoadModel(model);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return found;
  loaded->network.mutable_optimizer()->set_learning_rate(0);
  const CompileOptions options{.batch = 1, .fetch = {output}};
  const auto session = MakeSession(*loaded, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return found;
  for (const Numbers& tokens : steps) {
    EXPECT_TRUE((*session)->Feed("tokens", tokens).ok());
    const absl::Status run = (*session)->Run();
    EXPECT_TRUE(run.ok()) << run.message();
    found.push_back(*(*session)->Fetch(output));
  }
  return found;
}

// A document that ends in the middle of a row: what comes after it begins as at the begin of a text, and what comes
// before it goes on from the step before.
TEST(State, IsForgottenWhereADocumentEnds) {
  constexpr size_t kTokens = 128, kEnd = 40, kWidth = 256;
  Numbers first(kTokens), second(kTokens);
  for (size_t i = 0; i < kTokens; ++i) {
    first[i] = static_cast<double>(1 + i * 37 % 255);
    second[i] = static_cast<double>(1 + i * 91 % 255);
  }
  Numbers ends = second;
  ends[kEnd] = 0;
  Numbers after(ends.begin() + kEnd, ends.end());
  after.resize(kTokens, 1);
  for (const auto& [model, output] : {std::pair("lstm_bytes", "lstm2:2"), std::pair("gru_bytes", "gru2:1")}) {
    SCOPED_TRACE(model);
    const std::vector<Numbers> found = Remembered(model, output, {first, ends});
    const std::vector<Numbers> without_end = Remembered(model, output, {first, second});
    const std::vector<Numbers> fresh = Remembered(model, output, {ends});
    const std::vector<Numbers> alone = Remembered(model, output, {after});
    ASSERT_EQ(found.size(), 2);
    ASSERT_EQ(alone.size(), 1);
    ASSERT_EQ(found[1].size(), kTokens * kWidth);
    const auto apart = [&](const Numbers& a, size_t from_a, const Numbers& b, size_t from_b, size_t tokens) {
      double most = 0;
      for (size_t i = 0; i < tokens * kWidth; ++i) {
        most = std::max(most, std::abs(a[from_a * kWidth + i] - b[from_b * kWidth + i]));
      }
      return most;
    };
    EXPECT_LT(apart(found[1], kEnd, alone[0], 0, kTokens - kEnd), 1e-5);
    EXPECT_LT(apart(found[1], kEnd, fresh[0], kEnd, kTokens - kEnd), 1e-5);
    EXPECT_LT(apart(found[1], 0, without_end[1], 0, kEnd), 1e-5);
    // Otherwise it would go on, from the step before and within the row.
    EXPECT_GT(apart(found[1], 0, fresh[0], 0, 1), 1e-3);
    EXPECT_GT(apart(without_end[1], kEnd + 1, alone[0], 1, 1), 1e-3);
  }
}

std::string StateErrorOf(const std::string& text, CompileOptions options = {}) {
  return std::string(MakeUnfed(text, std::move(options)).status().message());
}

TEST(State, Errors) {
  const std::string head = "batch: 4\ninput { name: \"x\" shape { dim: 3 } }\n";
  const std::string tail = "\nlayer { name: \"y\" input: \"h\" dense { units: 3 } } objective: \"y\"";
  const auto with = [&](const std::string& state) {
    return absl::StrCat(head, "layer { name: \"h\" input: \"x\" state { ", state, " } }", tail);
  };
  EXPECT_EQ(StateErrorOf(with("dim: 3 next: \"y\"")), "");
  EXPECT_THAT(StateErrorOf(with("dim: 2 next: \"y\"")),
              HasSubstr("layer \"h\" (state): option \"next\": expected a value of the state's shape, float32[4, 2]; "
                        "\"y\" is float32[4, 3]"));
  EXPECT_THAT(StateErrorOf(with("dim: 3 next: \"z\"")), HasSubstr("\"z\" names no input and no layer"));
  EXPECT_THAT(StateErrorOf(with("dim: 3 next: \"z\""), {.training = false}),
              HasSubstr("\"z\" names no input and no layer"));
  EXPECT_THAT(StateErrorOf(with("dim: -1")), HasSubstr("layer \"h\" (state): option \"dim\""));
  EXPECT_THAT(StateErrorOf(with("dim: 3 next: \"y\""), {.micro_batches = {.count = 2}}),
              HasSubstr("a state has a row for each sample: leave accumulate out"));
  EXPECT_THAT(StateErrorOf(R"(
    input { name: "x" shape { dim: 3 } }
    block { name: "body" input: "a"
      layer { name: "h" input: "$a" state { dim: 3 next: "y" } }
      layer { name: "y" input: "h" input: "$a" add {} }
      output: "y" }
    layer { name: "rnn" input: "x" loop { body: "body" times: 2 carry { input: "a" output: "y" } } }
    objective: "rnn")"),
              HasSubstr("stands outside of loops and branches"));
}

}  // namespace
}  // namespace snug::core::test
