// What multiplies in the models of models/ is served by kernels that deserve it: no dense layer, convolution, product
// of matrices or attention, forward or gradient, runs a reference, whatever libraries this build has; and in the
// campaign none takes four times as long as this machine must. And no op takes several times as long in bfloat16 as in
// float32. ctest runs all of it on each instruction set that the machine has.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "engine/run/observe/step_timer.h"
#include "ops/graph_builder.h"
#include "ops/machine_rates.h"
#include "ops/platform.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

bool Multiplies(const std::string& op) {
  return absl::StartsWith(op, "dense") || absl::StartsWith(op, "conv") || absl::StartsWith(op, "matmul") ||
         absl::StrContains(op, "attention");
}

// "layer1.conv1 (conv_grad_weight) by plain" of each that a reference serves.
std::vector<std::string> ThoseByReference(const Compiled& compiled) {
  std::vector<std::string> found;
  for (const Step& step : compiled.executable.steps) {
    const Node& node = compiled.graph.node(step.node);
    const KernelChoice& choice = compiled.kernels[static_cast<size_t>(step.node.index)];
    if (Multiplies(node.op) && !choice.fast()) {
      found.push_back(absl::StrCat(node.name, " (", node.op, ") by ", choice.Name()));
    }
  }
  return found;
}

#if SNUG_HAS_ONEDNN
constexpr bool kHasLibrary = true;
#else
constexpr bool kHasLibrary = false;
#endif

class ProductKernels : public testing::TestWithParam<std::string> {};

TEST_P(ProductKernels, NoModelRunsAReference) {
  if (!kHasLibrary) GTEST_SKIP() << "SKIPPED: without oneDNN most convolutions have no other kernel than the plain one";
  const auto loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool training : {false, true}) {
      CompileOptions options = {.batch = 2, .training = training, .precision = precision, .threads = 2};
      const auto compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_THAT(ThoseByReference(*compiled), testing::IsEmpty())
          << Name(precision) << (training ? ", training" : ", forward");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ProductKernels, testing::ValuesIn(Models()),
                         [](const auto& model) { return model.param; });

// Where kernels are asked for that are references, the test above sees them.
TEST(ProductKernelsSeen, PlainOnesAreFound) {
  const auto loaded = LoadModel("lenet");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.batch = 2, .plain_kernels = true});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(ThoseByReference(*compiled), testing::Contains("conv1+relu1 (conv_fused) by plain"));
  EXPECT_THAT(ThoseByReference(*compiled), testing::Contains(testing::HasSubstr("(conv_grad_weight) by plain")));
}

// The least seconds that one processor needs for a node: its arithmetic on full registers, or its bytes from memory.
double LeastSeconds(const Cost& cost, double flops_per_second, double bytes_per_second) {
  return std::max(cost.flops / flops_per_second, cost.bytes / bytes_per_second);
}

// What is known to be slower, by how many times more, and why.
struct KnownSlow {
  absl::string_view model, node;  // the node's name begins so
  double times;
  absl::string_view why;
};
constexpr KnownSlow kKnownSlow[] = {
    {"autoencoder", "fine", 3, "4 filters do not fill a vector"},
    {"autoencoder", "blur", 8, "1 filter does not fill a vector"},
    {"autoencoder", "code", 3, "4 filters do not fill a vector"},
    {"lenet", "conv1", 3, "1 channel and 6 filters"},
    {"mlp_big", "fc2", 2, "8 rows pay for the packing of all weights"},
    {"mobilenet_v2", "features", 2, "oneDNN's gradient of depthwise weights on AVX2"},
    {"dcgan", "generator.main.12", 2, "3 channels of gradient do not fill a vector"},
    {"dcgan", "through.main.0", 2, "the same"},
    {"mnasnet0_5", "layers", 5, "oneDNN's gradients of 5 x 5 depthwise weights"},
    {"efficientnet_b0", "features", 5, "the same"},
    {"convnext_tiny", "features.1.0", 25,
     "the gradient of 7 x 7 depthwise weights of an image that lies channel by channel"},
    {"convnext_tiny", "features", 5, "oneDNN's gradient of 7 x 7 depthwise weights"},
    {"squeezenet1_0", "features", 2, "16 to 32 filters of 1 x 1: oneDNN's gradient of weights"},
    {"googlenet_aux", "inception3a.branch3", 3, "16 filters of 1 x 1: oneDNN's gradient of weights"},
    {"googlenet_aux", "inception4a.branch3", 3, "the same"},
    {"copy", "block", 3, "heads of 16: exp of each score costs as much as its products, which are shorter than a tile"},
};

double AllowedTimes(const std::string& model, const std::string& node) {
  for (const KnownSlow& slow : kKnownSlow) {
    if (model == slow.model && absl::StartsWith(node, slow.node)) return 4 * slow.times;
  }
  return 4;
}

// The nodes that took too long, with their kernels and rates.
std::vector<std::string> SlowOnes(const std::string& model, const Compiled& ran, const std::vector<double>& seconds,
                                  double flops, double copy) {
  constexpr double kFixed = 30e-6;  // seconds that any call may take: oneDNN's on the smallest layers
  std::vector<std::string> slow;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const Step& step = ran.executable.steps[i];
    const Node& node = ran.graph.node(step.node);
    if (!Multiplies(node.op)) continue;
    const Cost cost = CostOf(OpRegistry::Builtin().Get(node.op), step.types);
    if (seconds[i] <= AllowedTimes(model, node.name) * LeastSeconds(cost, flops, copy) + kFixed) continue;
    slow.push_back(absl::StrFormat("%s (%s) by %s: %.1f GFLOP/s of %.1f, %.1f GB/s of %.1f, %.3f ms; %s -> %s",
                                   node.name, node.op, ran.kernels[static_cast<size_t>(step.node.index)].Name(),
                                   cost.flops / seconds[i] * 1e-9, flops * 1e-9, cost.bytes / seconds[i] * 1e-9,
                                   copy * 1e-9, seconds[i] * 1e3, step.types.input(0).ToString(),
                                   step.types.output(0).ToString()));
  }
  return slow;
}

TEST(ProductRates, CampaignNoneIsUnderAQuarterOfWhatTheMachineDoes) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "SKIPPED: takes minutes; set SNUG_CAMPAIGN=1";
  if (!kHasLibrary) GTEST_SKIP() << "SKIPPED: without oneDNN most convolutions have no other kernel than the plain one";
  // One thread, so that whatever else the machine does may have the other processors.
  const double flops = MultiplyAddFlopsPerSecond(1), copy = CopyBytesPerSecond(1, kBeyondCaches);
  constexpr int kSteps = 3, kRounds = 5;
  for (const std::string& model : ModelsToRun()) {
    const auto loaded = LoadModel(model);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const bool large = model == "gpt2" || model == "bert_base" || model == "vit_b16" || model == "resnet50" ||
                       model == "vgg11" || model == "convnext_tiny" || model == "densenet121" ||
                       model == "transformer_base";
    CompileOptions options = {.batch = large ? 1 : 8};
    auto compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    auto timer = StepTimer::Create(*std::move(compiled), OpRegistry::Builtin(), {.seed = 1});
    ASSERT_TRUE(timer.ok()) << timer.status();
    (*timer)->TimeKernels();
    StepTimer* const timers[] = {timer->get()};
    const Compiled& ran = (*timer)->session().compiled();
    // What is slow because something else ran is not so for ever.
    std::vector<std::string> slow;
    for (int round = 0; round == 0 || (round < kRounds && !slow.empty()); ++round) {
      ASSERT_TRUE(StepInTurn(timers, 0, kSteps, 1).ok());
      slow = SlowOnes(model, ran, (*timer)->LeastKernelSeconds(), flops, copy);
    }
    EXPECT_THAT(slow, testing::IsEmpty()) << model;
  }
}

// The seconds of a step that each op takes, at least. What convolutions measure or sum for batch norms is not the same
// in both types (passes/measure_in_convolution.cc, sum_in_convolution.cc), so those that do and those that do not are
// one op here.
std::map<std::string, double> SecondsByOp(StepTimer& timer) {
  const Compiled& ran = timer.session().compiled();
  std::map<std::string, double> seconds;
  const std::vector<double> least = timer.LeastKernelSeconds();
  for (size_t i = 0; i < least.size(); ++i) {
    const std::string& op = ran.graph.node(ran.executable.steps[i].node).op;
    seconds[absl::StrReplaceAll(op, {{"conv_statistics", "conv"},
                                     {"batch_norm_inference", "batch_norm"},
                                     {"conv_grad_input_sums", "conv_grad_input"},
                                     {"batch_norm_grad_input", "batch_norm_fused_grad"}})] += least[i];
  }
  return seconds;
}

// A compiler that gives up vectors where values are converted makes a kernel ten to forty times as slow, and no other
// test sees it.
TEST(ProductKernelsTimes, NoOpTakesSeveralTimesAsLongInBFloat16) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "SKIPPED: checks of addresses take most of the time under a sanitizer";
#endif
  constexpr double kTimes = 4, kFixed = 1e-4;
  constexpr int kSteps = 2, kRounds = 5;
  for (const char* const model : {"mobilenet_v2", "resnet20", "gpt_bytes", "lenet"}) {
    const auto loaded = LoadModel(model);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    std::vector<std::unique_ptr<StepTimer>> owned;
    std::vector<StepTimer*> timers;
    for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
      CompileOptions options = {.batch = 4, .precision = precision};
      auto compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      auto timer = StepTimer::Create(*std::move(compiled), OpRegistry::Builtin(), {.seed = 1});
      ASSERT_TRUE(timer.ok()) << timer.status();
      (*timer)->TimeKernels();
      owned.push_back(*std::move(timer));
      timers.push_back(owned.back().get());
    }
    std::vector<std::string> slow;
    for (int round = 0; round == 0 || (round < kRounds && !slow.empty()); ++round) {
      ASSERT_TRUE(StepInTurn(timers, 0, kSteps, 1).ok());
      slow.clear();
      const auto wide = SecondsByOp(*timers[0]), narrow = SecondsByOp(*timers[1]);
      for (const auto& [op, seconds] : narrow) {
        const auto found = wide.find(op);
        if (found == wide.end() || seconds <= kTimes * found->second + kFixed) continue;
        slow.push_back(absl::StrFormat("%s: %.3f ms, and %.3f in float32", op, seconds * 1e3, found->second * 1e3));
      }
    }
    EXPECT_THAT(slow, testing::IsEmpty()) << model;
  }
}

}  // namespace
}  // namespace snug::core
