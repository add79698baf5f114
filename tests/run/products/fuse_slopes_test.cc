// Large products that are multiplied by slopes of relu and gelu as they are computed, in no more memory. They give the
// bits of a sweep of its own, on any number of threads; gelu's do where the compiler makes the same multiply-adds of
// both, which a build for debugging may not.
#include <absl/strings/match.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/substitute.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "ops/own_products.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

// fc1, fc2 and fc3 give gradients of 260 x 390 numbers, each a sum of 400 products; fc4's are of few.
constexpr char kDenseWithSlopes[] = R"(
  input { name: "x" shape { dim: [390] } }
  input { name: "label" dtype: INT32 max_value: 7 }
  layer { name: "fc0" input: "x" dense { units: 390 } }
  layer { name: "relu" input: "fc0" relu {} }
  layer { name: "fc1" input: "relu" dense { units: 400 } }
  layer { name: "narrow" input: "fc1" dense { units: 390 } }
  layer { name: "gelu" input: "narrow" gelu {} }
  layer { name: "fc2" input: "gelu" dense { units: 400 } }
  layer { name: "narrow2" input: "fc2" dense { units: 390 } }
  layer { name: "by_tanh" input: "narrow2" gelu { tanh: true } }
  layer { name: "fc3" input: "by_tanh" dense { units: 400 } }
  layer { name: "last" input: "fc3" gelu {} }
  layer { name: "fc4" input: "last" dense { units: 7 } }
  layer { name: "loss" input: "fc4" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";

TrainedRun TrainSlopes(CompileOptions options, bool fused, const char* network = kDenseWithSlopes) {
  if (!fused) options.disabled_passes = {"fuse_slopes"};
  return TrainSteps(network, options, 3);
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(FuseSlopes, GiveTheSameInNoMoreMemory) {
  const CompileOptions options{.batch = 260, .threads = 2};
  TrainedRun fused = TrainSlopes(options, true), apart = TrainSlopes(options, false);
  EXPECT_EQ(fused.ops["dense_grad_input_relu"], 1);
  EXPECT_EQ(fused.ops["dense_grad_input_gelu"], 2);
  EXPECT_EQ(fused.ops["gelu_grad"], 1) << "that of a small product";
  EXPECT_EQ(apart.ops["gelu_grad"], 3);
  EXPECT_LE(LargestDifference(fused.losses, apart.losses), 1e-6);
  EXPECT_LE(fused.bytes, apart.bytes);
}

// Without fc4, which may be the library's: on AVX2 its sums depend on the threads.
TEST(FuseSlopes, GiveTheSameBitsOnAnyNumberOfThreads) {
  const std::string network = absl::StrReplaceAll(
      kDenseWithSlopes,
      {{R"(name: "label" dtype: INT32 max_value: 7)", R"(name: "y" shape { dim: [400] })"},
       {R"(layer { name: "fc4" input: "last" dense { units: 7 } })", ""},
       {R"(input: "fc4" input: "label" softmax_cross_entropy)", R"(input: "last" input: "y" mean_squared_error)"}});
  TrainedRun one = TrainSlopes({.batch = 260, .threads = 1}, true, network.c_str());
  EXPECT_EQ(one.ops["dense_grad_input_gelu"], 2);
  for (const int threads : {2, 3}) {
    EXPECT_TRUE(TrainSlopes({.batch = 260, .threads = threads}, true, network.c_str()).state == one.state) << threads;
  }
}

TEST(FuseSlopes, OfReluGiveTheBitsOfASweepOfItsOwn) {
  constexpr char kOfRelu[] = R"(
    input { name: "x" shape { dim: [390] } }
    input { name: "y" shape { dim: [390] } }
    layer { name: "fc0" input: "x" dense { units: 390 } }
    layer { name: "relu" input: "fc0" relu {} }
    layer { name: "fc1" input: "relu" dense { units: 390 } }
    layer { name: "loss" input: "fc1" input: "y" mean_squared_error {} }
    objective: "loss"
  )";
  const CompileOptions options{.batch = 260, .threads = 2};
  const TrainedRun fused = TrainSlopes(options, true, kOfRelu), apart = TrainSlopes(options, false, kOfRelu);
  EXPECT_EQ(fused.ops.count("dense_grad_input_relu"), 1U);
  EXPECT_EQ(apart.ops.count("dense_grad_input_relu"), 0U);
  EXPECT_TRUE(fused.state == apart.state);
}

// The gradient of what a round gives is made in the next one, which a loop that stays one node does not see.
TEST(FuseSlopes, LeaveLoopsTheBitsOfTheirStraightLines) {
  for (const char* function : {"relu {}", "gelu {}", "gelu { tanh: true }"}) {
    const std::string network = absl::Substitute(R"(
      block {
        name: "body" input: "h"
        layer { name: "fc" input: "$$h" dense { units: 390 } }
        layer { name: "next" input: "fc" $0 }
        output: "next"
      }
      input { name: "x" shape { dim: [390] } }
      input { name: "label" dtype: INT32 max_value: 7 }
      layer { name: "fc0" input: "x" dense { units: 390 } }
      layer { name: "begin" input: "fc0" tanh {} }
      layer { name: "loop" input: "begin" loop { body: "body" times: 3 carry { input: "h" output: "next" } } }
      layer { name: "last" input: "loop" dense { units: 7 } }
      layer { name: "loss" input: "last" input: "label" softmax_cross_entropy {} }
      objective: "loss"
    )",
                                                 function);
    TrainedRun rolled = TrainSlopes({.batch = 260, .threads = 2, .loops = LoopRule::kRolled}, true, network.c_str());
    TrainedRun unrolled =
        TrainSlopes({.batch = 260, .threads = 2, .loops = LoopRule::kUnrolled}, true, network.c_str());
    const std::string fused = absl::StrContains(function, "relu") ? "dense_grad_input_relu" : "dense_grad_input_gelu";
    EXPECT_EQ(rolled.ops[fused], 0) << function;
    EXPECT_EQ(unrolled.ops[fused], 2) << function;
    EXPECT_TRUE(rolled.state == unrolled.state) << function;
  }
}

// In bfloat16 our own loops multiply where the processor has no products of it. A gradient is rounded before it is
// multiplied by slopes, as by a sweep of its own.
TEST(FuseSlopes, ServeBFloat16WhereOurOwnLoopsDo) {
  const CompileOptions options{.batch = 260, .precision = DType::kBFloat16, .threads = 2};
  TrainedRun fused = TrainSlopes(options, true), apart = TrainSlopes(options, false);
  const int served = OwnLoopsMultiply(DType::kBFloat16) ? 1 : 0;
  EXPECT_EQ(fused.ops["dense_grad_input_relu"], served);
  EXPECT_EQ(fused.ops["dense_grad_input_gelu"], 2 * served);
  EXPECT_EQ(apart.ops["dense_grad_input_gelu"], 0);
  EXPECT_LE(LargestDifference(fused.losses, apart.losses), 1e-3);
  EXPECT_LE(fused.bytes, apart.bytes);
}

TEST(FuseSlopes, LeaveOtherTypesAndPlainKernelsAlone) {
  for (CompileOptions options : {CompileOptions{.batch = 260, .precision = DType::kFloat64},
                                 CompileOptions{.batch = 260, .plain_kernels = true}}) {
    options.threads = 2;
    const auto session = MakeSession(kDenseWithSlopes, options);
    ASSERT_TRUE(session.ok()) << session.status();
    const Compiled& compiled = (*session)->compiled();
    for (const Step& step : compiled.executable.steps) {
      EXPECT_FALSE(absl::StartsWith(compiled.graph.node(step.node).op, "dense_grad_input_"));
    }
  }
}

}  // namespace
}  // namespace snug::core
