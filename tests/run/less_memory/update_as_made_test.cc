// Gradients that are used as they are made: the same training, to the bit with the same products, in less memory.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/network.pb.h"
#include "proto/options.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

// A table of 4.8 MB and a dense layer of 4.8 MB are large enough, the layer of 10 units is not.
constexpr char kTwoLarge[] = R"(
  input { name: "words" shape { dim: 6 } dtype: INT32 max_value: 3000 }
  input { name: "label" dtype: INT32 max_value: 10 }
  layer { name: "table" input: "words" embedding { entries: 3000 width: 400 } }
  layer { name: "flat"  input: "table" flatten {} }
  layer { name: "wide"  input: "flat"  dense { units: 500 } }
  layer { name: "act"   input: "wide"  relu {} }
  layer { name: "out"   input: "act"   dense { units: 10 } }
  layer { name: "loss"  input: "out" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";
constexpr int64_t kLargeGradient = 4'800'000;

std::map<std::string, int> OpsThatRun(const Compiled& compiled) {
  std::map<std::string, int> ops;
  for (const Step& step : compiled.executable.steps) ++ops[compiled.graph.node(step.node).op];
  return ops;
}

struct AsMadeRun {
  std::vector<std::byte> state;
  std::map<std::string, int> ops;
  int64_t step_bytes = 0, measured = 0;
};

AsMadeRun TrainAsMade(const CompileOptions& options, int steps = 2) {
  const auto session = MakeSession(kTwoLarge, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  for (int i = 0; i < steps; ++i) EXPECT_TRUE((*session)->Run().ok());
  return {.state = StateBytes(**session),
          .ops = OpsThatRun((*session)->compiled()),
          .step_bytes = (*session)->compiled().executable.memory.step_bytes(),
          .measured = (*session)->step_bytes()};
}

class AsMade : public testing::TestWithParam<const char*> {
 protected:
  static proto::Optimizer Optimizer() {
    const std::string text = absl::StrCat("learning_rate: 0.05 weight_decay: 0.01 ", GetParam());
    return proto::ParseOptions<proto::Optimizer>(text.c_str()).Get<proto::Optimizer>();
  }
};

TEST_P(AsMade, TrainsToTheSameBitsWithTheSameProducts) {
  const proto::Optimizer optimizer = Optimizer();
  CompileOptions options{.batch = 4, .threads = 2, .plain_kernels = true, .optimizer = &optimizer};
  const AsMadeRun apart = TrainAsMade(options);
  options.update_as_made = true;
  const AsMadeRun as_made = TrainAsMade(options);
  EXPECT_EQ(as_made.ops.count("embedding_grad"), 0u);
  EXPECT_EQ(as_made.ops.at("dense_grad_weight"), 1) << "the small layer's";
  EXPECT_TRUE(as_made.state == apart.state);
}

TEST_P(AsMade, TheGradientsTakeNoMemory) {
  const proto::Optimizer optimizer = Optimizer();
  CompileOptions options{.batch = 4, .threads = 2, .optimizer = &optimizer};
  const AsMadeRun apart = TrainAsMade(options);
  options.update_as_made = true;
  const AsMadeRun as_made = TrainAsMade(options);
  EXPECT_GT(apart.step_bytes, kLargeGradient);
  EXPECT_LT(as_made.step_bytes, kLargeGradient);
  EXPECT_EQ(as_made.measured, as_made.step_bytes);
}

TEST_P(AsMade, EveryWayToRunGivesTheSameBits) {
  const proto::Optimizer optimizer = Optimizer();
  CompileOptions options{.batch = 4, .threads = 1, .optimizer = &optimizer, .update_as_made = true};
  options.memory.strategy = "none";
  const AsMadeRun truth = TrainAsMade(options);
  for (const char* const strategy : {"both", "nnc", "best"}) {
    for (const int streams : {1, 2}) {
      options.memory.strategy = strategy;
      options.memory.streams = streams;
      EXPECT_TRUE(TrainAsMade(options).state == truth.state) << strategy << ", " << streams;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AsMade,
                         testing::Values("sgd {}", "sgd { momentum: 0.9 nesterov: true }", "adamw {}"),
                         [](const auto& info) { return absl::StrCat("case", info.index); });

TEST(UpdateAsMade, WhatElseReadsAGradientGetsIt) {
  for (const bool fetched : {true, false}) {
    CompileOptions options{.batch = 4, .threads = 1, .update_as_made = true};
    if (fetched) options.gradients = {"wide.weight", "table.weight"};
    if (!fetched) options.gradient_norm = true;
    const AsMadeRun trained = TrainAsMade(options, 1);
    EXPECT_EQ(trained.ops.at("dense_grad_weight"), 2);
    EXPECT_EQ(trained.ops.at("embedding_grad"), 1);
  }
}

TEST(UpdateAsMade, AnOptimizerThatNeedsTheWholeGradientGetsIt) {
  const proto::Optimizer lamb = proto::ParseOptions<proto::Optimizer>("lamb {}").Get<proto::Optimizer>();
  const AsMadeRun trained = TrainAsMade({.batch = 4, .threads = 1, .optimizer = &lamb, .update_as_made = true}, 1);
  EXPECT_EQ(trained.ops.at("dense_grad_weight"), 2);
}

// A layer whose last block of rows is shorter than the others, and one whose blocks all have few rows.
TEST(UpdateAsMade, BlocksOfProductsInPiecesHaveTheBitsOfTheWhole) {
  for (const auto& [width, units] : {std::pair(1024, 512 + 512 + 384), std::pair(16384, 128)}) {
    const std::string network = absl::Substitute(R"(
        input { name: "x" shape { dim: $0 } }
        input { name: "label" dtype: INT32 max_value: 10 }
        layer { name: "wide" input: "x" dense { units: $1 } }
        layer { name: "act" input: "wide" relu {} }
        layer { name: "out" input: "act" dense { units: 10 } }
        layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
        objective: "loss")",
                                                 width, units);
    CompileOptions options{.batch = 64, .threads = 2, .split_products = true};
    options.memory.strategy = "none";
    std::vector<std::vector<std::byte>> states;
    for (const int gradients : {1, 2}) {
      const auto session = MakeSession(network, options);
      ASSERT_TRUE(session.ok()) << session.status();
      for (int i = 0; i < 2; ++i) ASSERT_TRUE((*session)->Run().ok());
      EXPECT_EQ(OpsThatRun((*session)->compiled()).at("dense_grad_weight"), gradients);
      states.push_back(StateBytes(**session));
      options.disabled_passes.insert("update_as_made_exactly");
    }
    EXPECT_TRUE(states[0] == states[1]) << width;
  }
}

TEST(UpdateAsMade, ItIsForTheProcessor) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(kTwoLarge, "test");
  ASSERT_TRUE(loaded.ok());
  const auto compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                     {.device = {Device::Kind::kCuda}, .update_as_made = true});
  EXPECT_THAT(std::string(compiled.status().message()), HasSubstr("update-as-made: is for the CPU"));
}

}  // namespace
}  // namespace snug::core
