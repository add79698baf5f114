// Gradients from outputs are those from inputs to rounding, what is not kept takes no memory, and a layer norm that
// would lose its digits is an error before anything is updated.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

struct OutputRun {
  std::vector<std::byte> state;
  std::vector<double> losses;
  std::map<std::string, int> ops;  // how many nodes of each run
  int64_t step_bytes = 0;
};

OutputRun TrainFromOutputs(const absl::StatusOr<LoadedNetwork>& loaded, CompileOptions options, bool from_outputs,
                           int steps = 3) {
  options.gradients_from_outputs = from_outputs;
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  const auto session = MakeSession(*loaded, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  OutputRun run;
  for (int i = 0; i < steps; ++i) {
    const absl::Status ran = (*session)->Run();
    EXPECT_TRUE(ran.ok()) << ran;
    const auto loss = (*session)->Fetch((*session)->compiled().graph.outputs[0].name);
    EXPECT_TRUE(loss.ok()) << loss.status();
    if (loss.ok()) run.losses.push_back(loss->at(0));
  }
  run.state = StateBytes(**session);
  const Compiled& compiled = (*session)->compiled();
  run.step_bytes = compiled.executable.memory.step_bytes();
  for (const Step& step : compiled.executable.steps) ++run.ops[compiled.graph.node(step.node).op];
  return run;
}

// Every norm's and every dense layer's input is kept; every gelu's output is read by a dense layer.
constexpr char kBlocks[] = R"(
  input { name: "x" shape { dim: [12, 32] } }
  input { name: "label" dtype: INT32 max_value: 10 shape { dim: 12 } }
  layer { name: "fc0" input: "x" dense { units: 32 } }
  layer { name: "norm1" input: "fc0" layer_norm {} }
  layer { name: "up1" input: "norm1" dense { units: 128 } }
  layer { name: "gelu1" input: "up1" gelu {} }
  layer { name: "down1" input: "gelu1" dense { units: 32 } }
  layer { name: "sum1" input: "fc0" input: "down1" add {} }
  layer { name: "norm2" input: "sum1" layer_norm {} }
  layer { name: "up2" input: "norm2" dense { units: 128 } }
  layer { name: "gelu2" input: "up2" gelu { tanh: true } }
  layer { name: "down2" input: "gelu2" dense { units: 32 } }
  layer { name: "sum2" input: "sum1" input: "down2" add {} }
  layer { name: "norm3" input: "sum2" layer_norm { affine: false } }
  layer { name: "head" input: "norm3" dense { units: 10 } }
  layer { name: "loss" input: "head" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";

TEST(GradientsFromOutputs, TrainingIsTheSameToRounding) {
  const auto loaded = LoadNetworkText(kBlocks, "test");
  for (const auto& [precision, tolerance] :
       {std::pair(DType::kFloat64, 1e-11), std::pair(DType::kFloat32, 2e-5), std::pair(DType::kBFloat16, 0.02)}) {
    const CompileOptions options{.batch = 16, .precision = precision, .threads = 2};
    const OutputRun from_inputs = TrainFromOutputs(loaded, options, false);
    const OutputRun run = TrainFromOutputs(loaded, options, true);
    const bool narrow = precision == DType::kBFloat16;  // layer norm is left as it is then
    EXPECT_EQ(run.ops.count("gelu_grad"), 0u);
    EXPECT_EQ(run.ops.at("gelu_from_output_grad"), 2);
    EXPECT_EQ(run.ops.count("layer_norm_grad"), narrow ? 1u : 0u);
    if (!narrow) {
      EXPECT_EQ(run.ops.at("layer_norm_from_output_grad"), 3);
    }
    EXPECT_LT(run.step_bytes, 0.9 * static_cast<double>(from_inputs.step_bytes));
    ASSERT_EQ(run.losses.size(), from_inputs.losses.size());
    for (size_t i = 0; i < run.losses.size(); ++i) EXPECT_NEAR(run.losses[i], from_inputs.losses[i], tolerance) << i;
    EXPECT_FALSE(run.state == from_inputs.state);
    EXPECT_LT(run.losses.back(), run.losses.front());
  }
}

// The gate of the first update is there before the norm that belongs to the second one.
TEST(GradientsFromOutputs, ANormMayBelongToALaterUpdate) {
  const auto loaded = LoadNetworkText(R"(
    batch: 16
    input { name: "x" shape { dim: 8 } }
    layer { name: "a.1" input: "x" dense { units: 8 } }
    layer { name: "first" input: "a.1" input: "x" mean_squared_error {} }
    layer { name: "b.1" input: "x" dense { units: 9 } }
    layer { name: "b.2" input: "b.1" batch_norm {} }
    layer { name: "b.3" input: "b.2" dense { units: 8 } }
    layer { name: "loss" input: "b.3" input: "x" mean_squared_error {} }
    objective: ["loss", "first"]
    update { objective: "first" parameter: "a.*" }
    update { objective: "loss" parameter: "b.*" }
  )",
                                      "test");
  const CompileOptions options{.precision = DType::kFloat64};
  const OutputRun from_inputs = TrainFromOutputs(loaded, options, false);
  const OutputRun run = TrainFromOutputs(loaded, options, true);
  EXPECT_EQ(run.ops.count("batch_norm_output_scales"), 1u);
  ASSERT_EQ(run.losses.size(), from_inputs.losses.size());
  for (size_t i = 0; i < run.losses.size(); ++i) EXPECT_NEAR(run.losses[i], from_inputs.losses[i], 1e-11) << i;
}

TEST(GradientsFromOutputs, EveryStrategyGivesTheSameBits) {
  const auto loaded = LoadNetworkText(kBlocks, "test");
  CompileOptions options{.batch = 4, .threads = 1};
  options.memory.strategy = "none";
  const OutputRun truth = TrainFromOutputs(loaded, options, true);
  for (const char* const strategy : {"both", "nnc", "best", "dynamic"}) {
    for (const int streams : {1, 2}) {
      if (streams == 2 && strategy == std::string("dynamic")) continue;
      options.memory.strategy = strategy;
      options.memory.streams = streams;
      EXPECT_TRUE(TrainFromOutputs(loaded, options, true).state == truth.state) << strategy << ", " << streams;
    }
  }
  EXPECT_TRUE(TrainFromOutputs(loaded, {.batch = 4, .threads = 3}, true).state ==
              TrainFromOutputs(loaded, {.batch = 4, .threads = 3, .memory = {.strategy = "none"}}, true).state);
}

// An inverted residual block, whose second norm no activation follows, with weights of both signs.
constexpr char kInverted[] = R"(
  input { name: "x" shape { dim: [4, 10, 10] } }
  input { name: "label" dtype: INT32 max_value: 10 }
  layer { name: "expand" input: "x" conv { filters: 16 kernel: 1 bias: false } }
  layer { name: "norm1" input: "expand" batch_norm {} }
  layer { name: "act" input: "norm1" relu6 {} }
  layer { name: "project" input: "act" conv { filters: 8 kernel: 1 bias: false } }
  layer { name: "norm2" input: "project" batch_norm {} }
  layer { name: "next" input: "norm2" conv { filters: 16 kernel: 1 } }
  layer { name: "mean" input: "next" global_avg_pool {} }
  layer { name: "fc" input: "mean" dense { units: 10 } }
  layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";

TEST(GradientsFromOutputs, OfABatchNormAreTheSameToRounding) {
  const auto loaded = LoadNetworkText(kInverted, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const auto& [precision, tolerance] : {std::pair(DType::kFloat64, 1e-10), std::pair(DType::kFloat32, 1e-4)}) {
    CompileOptions options{.batch = 4, .precision = precision, .threads = 2};
    options.gradients = {"x", "norm2.weight", "norm2.bias", "project.weight"};
    std::vector<std::vector<double>> found[2];
    for (const bool from_outputs : {false, true}) {
      options.gradients_from_outputs = from_outputs;
      const auto session = MakeSession(*loaded, options);
      ASSERT_TRUE(session.ok()) << session.status();
      ASSERT_TRUE((*session)->SetVariable("norm2.weight", std::vector<double>{1, -0.5, 2, -1, 0.1, -0.1, 3, 1}).ok());
      ASSERT_TRUE((*session)->SetVariable("norm2.bias", std::vector<double>{0, 1, -2, 3, 1, -1, 0.5, 0}).ok());
      const absl::Status ran = (*session)->Run();
      ASSERT_TRUE(ran.ok()) << ran;
      for (const std::string& name : options.gradients) {
        const auto gradient = (*session)->Fetch("d(" + name + ")");
        ASSERT_TRUE(gradient.ok()) << gradient.status();
        found[from_outputs ? 1 : 0].push_back(*gradient);
      }
      int checks = 0;
      for (const Step& step : (*session)->compiled().executable.steps) {
        checks += (*session)->compiled().graph.node(step.node).op == "batch_norm_output_scales" ? 1 : 0;
      }
      EXPECT_EQ(checks, from_outputs ? 1 : 0);
    }
    for (size_t i = 0; i < options.gradients.size(); ++i) {
      SCOPED_TRACE(options.gradients[i]);
      ASSERT_EQ(found[0][i].size(), found[1][i].size());
      double largest = 0;
      for (const double value : found[0][i]) largest = std::max(largest, std::abs(value));
      EXPECT_GT(largest, 0);
      for (size_t j = 0; j < found[0][i].size(); ++j) {
        EXPECT_NEAR(found[1][i][j], found[0][i][j], tolerance * largest) << j;
      }
    }
  }
}

// All samples have one label, so that what flows back into a channel is nearly the same everywhere, and its gradient of
// the weight is the small rest that is not.
TEST(GradientsFromOutputs, ABatchNormWhoseWeightIsSmallBesideItsBiasHasGradientsOfAsManyDigits) {
  const auto loaded = LoadNetworkText(kInverted, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  struct Gradients {
    std::vector<double> weight;
    std::vector<double> before;  // of the weights of the layer before it, 16 for each channel, which dx goes into
  };
  const auto gradients = [&](DType precision, bool from_outputs, bool plain = true) -> Gradients {
    const CompileOptions options{.batch = 16,
                                 .precision = precision,
                                 .threads = 2,
                                 .plain_kernels = plain,
                                 .gradients = {"norm2.weight", "project.weight"},
                                 .gradients_from_outputs = from_outputs};
    const auto session = MakeSession(*loaded, options);
    SNUG_CHECK_OK(session.status());
    std::vector<double> weight, bias;
    for (const double ratio : {1, -30, 100, 300, -500, 800, 1000, -1000}) {
      weight.push_back(1 / ratio);
      bias.push_back(ratio == 300 ? -1 : 1);
    }
    SNUG_CHECK_OK((*session)->SetVariable("norm2.weight", weight));
    SNUG_CHECK_OK((*session)->SetVariable("norm2.bias", bias));
    SNUG_CHECK_OK((*session)->Feed("label", std::vector<double>(16, 3)));
    SNUG_CHECK_OK((*session)->Run());
    return {*(*session)->Fetch("d(norm2.weight)"), *(*session)->Fetch("d(project.weight)")};
  };
  const Gradients truth = gradients(DType::kFloat64, false);
  // Relative to the largest of so many that stand together.
  const auto worst = [](const std::vector<double>& found, const std::vector<double>& expected, size_t together) {
    double worst = 0;
    for (size_t first = 0; first < expected.size(); first += together) {
      double error = 0, largest = 0;
      for (size_t i = first; i < first + together; ++i) {
        error = std::max(error, std::abs(found[i] - expected[i]));
        largest = std::max(largest, std::abs(expected[i]));
      }
      worst = std::max(worst, error / largest);
    }
    return worst;
  };
  const auto expect = [&](const char* what, const Gradients& found, double of_weight, double of_before) {
    EXPECT_LE(worst(found.weight, truth.weight, 1), of_weight) << what;
    EXPECT_LE(worst(found.before, truth.before, 16), of_before) << what;
  };
  expect("from inputs", gradients(DType::kFloat32, false), 3e-2, 2e-2);
  expect("from outputs", gradients(DType::kFloat32, true), 1e-3, 5e-3);
  expect("from outputs, by fast kernels, which add up in float32", gradients(DType::kFloat32, true, false), 3e-3, 1e-2);
  expect("from outputs, in double", gradients(DType::kFloat64, true), 1e-8, 1e-8);
}

TEST(GradientsFromOutputs, ALostWeightOfABatchNormIsAnErrorBeforeAnyUpdate) {
  const auto loaded = LoadNetworkText(kInverted, "test");
  const auto session = MakeSession(*loaded, {.batch = 4, .threads = 1, .gradients_from_outputs = true});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run().ok());
  ASSERT_TRUE((*session)->SetVariable("norm2.weight", std::vector<double>{1, 1, 1, 1e-4, 1, 1, 1, 1}).ok());
  ASSERT_TRUE((*session)->SetVariable("norm2.bias", std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1}).ok());
  const std::vector<std::byte> before = StateBytes(**session);
  const absl::Status ran = (*session)->Run();
  EXPECT_THAT(std::string(ran.message()), HasSubstr("layer \"norm2/output_scales\" ("));
  EXPECT_THAT(std::string(ran.message()), HasSubstr("weight[3] is 0.0001 beside bias[3] 1"));
  EXPECT_TRUE(StateBytes(**session) == before);
}

// What is fetched, or kept for another gradient, stays as it is.
TEST(GradientsFromOutputs, WhatStaysAnywayIsReadAsBefore) {
  const auto loaded = LoadNetworkText(kBlocks, "test");
  const OutputRun run = TrainFromOutputs(loaded, {.batch = 4, .threads = 1, .fetch = {"up1", "sum1"}}, true);
  EXPECT_EQ(run.ops.at("gelu_grad"), 1);
  EXPECT_EQ(run.ops.at("gelu_from_output_grad"), 1);
  EXPECT_EQ(run.ops.at("layer_norm_grad"), 1);
  EXPECT_EQ(run.ops.at("layer_norm_from_output_grad"), 2);
}

TEST(GradientsFromOutputs, ALostWeightIsAnErrorBeforeAnyUpdate) {
  const auto loaded = LoadNetworkText(kBlocks, "test");
  const auto session = MakeSession(*loaded, {.batch = 4, .threads = 1, .gradients_from_outputs = true});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run().ok());
  std::vector<double> weight(32, 1.0);
  weight[7] = 0;
  ASSERT_TRUE((*session)->SetVariable("norm2.weight", weight).ok());
  const std::vector<std::byte> before = StateBytes(**session);
  const absl::Status ran = (*session)->Run();
  EXPECT_THAT(std::string(ran.message()), HasSubstr("layer \"norm2\" ("));
  EXPECT_THAT(std::string(ran.message()), HasSubstr("weight[7] is 0"));
  EXPECT_THAT(std::string(ran.message()), HasSubstr("leave out gradients-from-outputs"));
  EXPECT_TRUE(StateBytes(**session) == before);
}

TEST(GradientsFromOutputs, WholeModelsTrainTheSameToRounding) {
  for (const char* const model : {"vit_b16", "gpt_small"}) {
    SCOPED_TRACE(model);
    const auto loaded = LoadModel(model);
    const CompileOptions options{.batch = 1, .threads = 2};
    const OutputRun from_inputs = TrainFromOutputs(loaded, options, false, 2);
    const OutputRun run = TrainFromOutputs(loaded, options, true, 2);
    EXPECT_EQ(run.ops.count("gelu_grad"), 0u);
    EXPECT_GE(run.ops.at("layer_norm_from_output_grad"), 4);
    ASSERT_EQ(run.losses.size(), from_inputs.losses.size());
    EXPECT_EQ(run.losses[0], from_inputs.losses[0]);  // the forward pass is the same
    EXPECT_NEAR(run.losses[1], from_inputs.losses[1], 1e-5 * std::abs(run.losses[1]));
    EXPECT_NE(run.losses[1], run.losses[0]);
  }
}

TEST(GradientsFromOutputs, ItIsForTheProcessor) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok());
  const auto compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                     {.device = {Device::Kind::kCuda}, .gradients_from_outputs = true});
  EXPECT_THAT(std::string(compiled.status().message()), HasSubstr("gradients-from-outputs: is for the CPU"));
}

}  // namespace
}  // namespace snug::core
