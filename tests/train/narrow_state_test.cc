// What optimizers keep in bfloat16 and in 8 bits, in whole trainings: how many bytes it takes, that a training has the
// same bits again and goes on as it was, and that it learns what it learns in float32.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/train/trainer.h"
#include "engine/train/training_options.h"
#include "ops/coded_bytes.h"
#include "proto/text_loader.h"
#include "tests/run/train_util.h"
#include "tests/testing/digits_network.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

struct LoadedTrainer {
  std::unique_ptr<LoadedNetwork> loaded;  // the trainer refers to it
  std::unique_ptr<Trainer> trainer;
};

absl::StatusOr<LoadedTrainer> TryMake(const std::string& text, const CompileOptions& compile) {
  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkText(text, "test.pbtxt"));
  LoadedTrainer made{std::make_unique<LoadedNetwork>(std::move(loaded)), nullptr};
  const proto::Training& training = made.loaded->network.training();
  SNUG_ASSIGN_OR_RETURN(TrainingData data, OpenData(training.data(), made.loaded->network, 1));
  TrainerOptions options;
  options.compile = compile;
  SNUG_ASSIGN_OR_RETURN(made.trainer, Trainer::Create(made.loaded->network, made.loaded->source_map,
                                                      OpRegistry::Builtin(), training, std::move(data), options));
  return made;
}

LoadedTrainer MakeTrainer(const std::string& text, const CompileOptions& compile = {.batch = 16}) {
  absl::StatusOr<LoadedTrainer> made = TryMake(text, compile);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : LoadedTrainer();
}

// The digits' network with another optimizer.
std::string With(absl::string_view optimizer, absl::string_view training = "steps: 8 evaluate_every: 8") {
  std::string text = DigitsNetwork(training, 300);
  const std::string written = "learning_rate: 0.1 sgd { momentum: 0.9 }";
  return text.replace(text.find(written), written.size(), absl::StrCat("learning_rate: 0.005 ", optimizer));
}

constexpr const char* kOptimizers[] = {"sgd { momentum: 0.9 }",
                                       "sgd { momentum: 0.9 nesterov: true }",
                                       "adam {}",
                                       "adamw {}",
                                       "rmsprop {}",
                                       "rmsprop { momentum: 0.9 }",
                                       "adagrad {}",
                                       "lion {}",
                                       "lamb {}"};

TEST(NarrowState, SlotsTakeFewerBytesAndHaveTheSameBitsAgain) {
  for (const char* const optimizer : kOptimizers) {
    for (const char* const state : {"float32", "bfloat16", "8bit"}) {
      SCOPED_TRACE(absl::StrCat(optimizer, " ", state));
      const std::string text = With(absl::StrCat(optimizer, " state: \"", state, "\""));
      const LoadedTrainer made = MakeTrainer(text);
      ASSERT_NE(made.trainer, nullptr);
      const Graph& graph = made.trainer->session().compiled().graph;
      int slots = 0;
      for (const Variable& variable : graph.variables()) {
        if (variable.role != VariableRole::kSlot) continue;
        ++slots;
        const int64_t n = graph.variable(variable.slot_of).type.num_elements();
        const int64_t expected = state[0] == 'f' ? 4 * n : state[0] == 'b' ? 2 * n : CodedBytes(n);
        EXPECT_EQ(variable.type.size_bytes(), expected) << variable.name;
        EXPECT_EQ(graph.variable(variable.slot_of).type.dtype, DType::kFloat32);
      }
      EXPECT_GE(slots, 4);
      const absl::Status status = made.trainer->Run({});
      ASSERT_TRUE(status.ok()) << status.message();
      if (state[0] == 'f') continue;
      const LoadedTrainer again = MakeTrainer(text);
      ASSERT_TRUE(again.trainer->Run({}).ok());
      EXPECT_TRUE(StateBytes(again.trainer->session()) == StateBytes(made.trainer->session()));
    }
  }
}

// Neither the strategy of memory nor several streams change a bit.
TEST(NarrowState, TheBitsAreTheSameUnderEveryPlan) {
  for (const char* const optimizer : {"adam {}", "lamb {}"}) {
    const std::string text = With(absl::StrCat(optimizer, " state: \"8bit\" clip_norm: 1"));
    const LoadedTrainer one = MakeTrainer(text, {.batch = 16, .threads = 1});
    CompileOptions options{.batch = 16, .threads = 1};
    options.memory.streams = 2;
    options.memory.strategy = "share";
    const LoadedTrainer other = MakeTrainer(text, options);
    ASSERT_NE(one.trainer, nullptr);
    ASSERT_NE(other.trainer, nullptr);
    ASSERT_TRUE(one.trainer->Run({}).ok());
    ASSERT_TRUE(other.trainer->Run({}).ok());
    EXPECT_TRUE(StateBytes(one.trainer->session()) == StateBytes(other.trainer->session())) << optimizer;
  }
}

TEST(NarrowState, GoesOnAsUninterrupted) {
  for (const char* const state : {"bfloat16", "8bit"}) {
    const std::string text = With(absl::StrCat("adam {} state: \"", state, "\""), "steps: 40 evaluate_every: 40");
    const LoadedTrainer whole = MakeTrainer(text), first = MakeTrainer(text), second = MakeTrainer(text);
    ASSERT_TRUE(whole.trainer->Run({}).ok());
    ASSERT_TRUE(first.trainer->Run({.stop = [&] { return first.trainer->step() == 23; }}).ok());
    std::memcpy(const_cast<std::byte*>(second.trainer->session().state_data()), first.trainer->session().state_data(),
                static_cast<size_t>(first.trainer->session().state_bytes()));
    ASSERT_TRUE(second.trainer->Resume(23).ok());
    ASSERT_TRUE(second.trainer->Run({}).ok());
    EXPECT_TRUE(StateBytes(second.trainer->session()) == StateBytes(whole.trainer->session())) << state;
  }
}

// Parameters of bfloat16, micro-batches, clipping, averages, and a parameter that is frozen: each does what it does
// without narrow slots.
TEST(NarrowState, GoesWithEverythingElse) {
  for (const char* const state : {"float32", "bfloat16", "8bit"}) {
    SCOPED_TRACE(state);
    std::string text = With(absl::StrCat("adam {} state: \"", state, "\" clip_norm: 1 average { decay: 0.9 }"),
                            "steps: 30 evaluate_every: 30 accumulate: 2");
    const std::string layer = "layer { name: \"fc2\" input: \"drop\"";
    text.insert(text.find(layer) + layer.size(), " param { name: \"weight\" frozen: true }");
    const LoadedTrainer made =
        MakeTrainer(text, {.batch = 16, .precision = DType::kBFloat16, .stochastic_rounding = true});
    ASSERT_NE(made.trainer, nullptr);
    const Graph& graph = made.trainer->session().compiled().graph;
    const auto dtype = [&](const char* name) { return graph.variable(graph.FindVariable(name)).type.dtype; };
    const DType kept = state[0] == 'f' ? DType::kFloat32 : state[0] == 'b' ? DType::kBFloat16 : DType::kUint8;
    EXPECT_EQ(dtype("fc1.weight"), DType::kBFloat16);
    EXPECT_EQ(dtype("fc1.weight/m"), kept);
    EXPECT_EQ(dtype("fc1.weight/v"), kept);
    EXPECT_EQ(dtype("fc1.weight/average"), DType::kFloat32);
    EXPECT_FALSE(graph.FindVariable("fc2.weight/m").valid());
    const absl::Status status = made.trainer->Run({});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_LT(made.trainer->Evaluate()->evaluation.metrics[0].second, 2.2);  // chance has 2.3
  }
}

TEST(NarrowState, LearnsWhatItLearnsInFloat32) {
  for (const char* const optimizer : {"sgd { momentum: 0.9 } learning_rate: 0.1", "adam {} learning_rate: 0.02"}) {
    const auto accuracy = [&](absl::string_view state) {
      const LoadedTrainer made = MakeTrainer(absl::StrCat(R"(
      name: "mlp"
      input { name: "image" shape { dim: 784 } }
      input { name: "label" dtype: INT32 max_value: 10 }
      layer { name: "fc1" input: "image" dense { units: 64 } }
      layer { name: "act" input: "fc1" relu {} }
      layer { name: "fc2" input: "act" dense { units: 10 } }
      layer { name: "loss" input: "fc2" input: "label" softmax_cross_entropy {} }
      layer { name: "accuracy" input: "fc2" input: "label" accuracy {} }
      objective: "loss" output: "accuracy"
      optimizer { )",
                                                          optimizer, " state: \"", state, R"(" }
      training { epochs: 5 data { digits { samples: 8000 } } schedule { one_cycle {} } })"),
                                             {.batch = 32});
      EXPECT_TRUE(made.trainer->Run({}).ok());
      return made.trainer->Evaluate()->evaluation.metrics[1].second;
    };
    const double float32 = accuracy("float32");
    EXPECT_GT(float32, 0.85) << optimizer;  // chance has 0.1
    EXPECT_NEAR(accuracy("bfloat16"), float32, 0.015) << optimizer;
    EXPECT_NEAR(accuracy("8bit"), float32, 0.015) << optimizer;
  }
}

TEST(NarrowState, WhatCannotBeIsRefusedByName) {
  const auto refusal = [](absl::string_view optimizer, const CompileOptions& compile = {.batch = 16}) {
    return std::string(TryMake(With(optimizer), compile).status().message());
  };
  EXPECT_THAT(refusal("adam {} state: \"int4\""),
              HasSubstr("optimizer.state: expected float32, bfloat16 or 8bit, found \"int4\""));
  EXPECT_THAT(refusal("sgd {} state: \"8bit\""), HasSubstr("found sgd without momentum, which keeps nothing"));
  EXPECT_THAT(refusal("adagrad { initial_accumulator_value: 0.1 } state: \"8bit\""),
              HasSubstr("optimizer.adagrad.initial_accumulator_value: expected 0"));
  EXPECT_THAT(refusal("adam {} state: \"8bit\"", {.batch = 16, .precision = DType::kFloat64}),
              HasSubstr("optimizer.state: is for the precisions float32 and bfloat16, found float64"));
  EXPECT_EQ(refusal("adagrad { initial_accumulator_value: 0.1 } state: \"bfloat16\""), "");
}

}  // namespace
}  // namespace snug::core
