// Batch norms whose gradients' sums come with the gradient of the convolution behind them: what that changes, and what
// it leaves alone.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

// Two blocks with shortcuts, each of convolutions of single taps, the first of which ends in one of more columns than
// steps; and one in steps, which gives the shortcut's gradient of the last sum.
constexpr char kOfSummedNorms[] = R"(
  input { name: "x" shape { dim: [16, 21, 19] } }
  layer { name: "c0" input: "x" conv { filters: 80 kernel: 1 bias: false } }
  layer { name: "n0" input: "c0" batch_norm {} }
  layer { name: "r0" input: "n0" relu {} }
  layer { name: "c1" input: "r0" conv { filters: 40 kernel: 1 bias: false } }
  layer { name: "n1" input: "c1" batch_norm {} }
  layer { name: "r1" input: "n1" relu6 {} }
  layer { name: "c2" input: "r1" conv { filters: 80 kernel: 1 bias: false } }
  layer { name: "n2" input: "c2" batch_norm {} }
  layer { name: "s2" input: "n2" input: "r0" add {} }
  layer { name: "r2" input: "s2" relu {} }
  layer { name: "c3" input: "r2" conv { filters: 300 kernel: 1 bias: false } }
  layer { name: "n3" input: "c3" batch_norm { affine: false } }
  layer { name: "r3" input: "n3" relu {} }
  layer { name: "c4" input: "r3" conv { filters: 80 kernel: 1 bias: false } }
  layer { name: "n4" input: "c4" batch_norm {} }
  layer { name: "s4" input: "n4" input: "r2" add {} }
  layer { name: "r4" input: "s4" relu6 {} }
  layer { name: "c5" input: "r4" conv { filters: 80 kernel: 1 bias: false } }
  layer { name: "c6" input: "r4" conv { filters: 80 kernel: 1 bias: false } }
  layer { name: "s6" input: "c5" input: "c6" add {} }
  layer { name: "tanh" input: "s6" tanh {} }
  layer { name: "squared" input: "tanh" square {} }
  layer { name: "loss" input: "squared" reduce_mean {} }
  objective: "loss"
)";

constexpr int64_t kSummedBatch = 24;  // of 399 pixels, which count as many

// Convolutions of each channel alone, one of them in steps, and one whose data are read by another layer, too: that one
// has nothing to add to what it sums.
constexpr char kOfNormsBeforeDepthwise[] = R"(
  input { name: "x" shape { dim: [16, 21, 19] } }
  layer { name: "c0" input: "x" conv { filters: 40 kernel: 1 bias: false } }
  layer { name: "n0" input: "c0" batch_norm {} }
  layer { name: "r0" input: "n0" relu6 {} }
  layer { name: "d1" input: "r0" conv { filters: 40 kernel: 3 groups: 40 pad: 1 bias: false } }
  layer { name: "n1" input: "d1" batch_norm {} }
  layer { name: "r1" input: "n1" relu {} }
  layer { name: "d2" input: "r1" conv { filters: 40 kernel: 5 groups: 40 pad: 2 stride: 2 bias: false } }
  layer { name: "n2" input: "d2" batch_norm {} }
  layer { name: "r2" input: "n2" relu6 {} }
  layer { name: "d3" input: "r2" conv { filters: 40 kernel: 3 groups: 40 pad: 1 bias: false } }
  layer { name: "s3" input: "d3" input: "r2" add {} }
  layer { name: "tanh" input: "s3" tanh {} }
  layer { name: "squared" input: "tanh" square {} }
  layer { name: "loss" input: "squared" reduce_mean {} }
  objective: "loss"
)";

TrainedRun TrainSummed(CompileOptions options, bool summed = true, const char* network = kOfSummedNorms) {
  if (!summed) options.disabled_passes = {"sum_in_convolution"};
  return TrainSteps(network, options, 4);
}

void ExpectLossesNear(const TrainedRun& a, const TrainedRun& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], tolerance) << "step " << i;
}

TEST(SummedNorms, TrainAsThoseThatSumThemselves) {
  const CompileOptions options{.batch = kSummedBatch, .threads = 2};
  TrainedRun summed = TrainSummed(options), apart = TrainSummed(options, false);
  EXPECT_EQ(summed.ops["conv_grad_input_sums"], summed.ops["batch_norm_grad_input"]);
  EXPECT_GE(summed.ops["conv_grad_input_sums"], 3);
  EXPECT_EQ(apart.ops["conv_grad_input_sums"], 0);
  EXPECT_EQ(apart.ops["batch_norm_grad_input"], 0);
  ExpectLossesNear(summed, apart, 1e-5);
  EXPECT_LE(summed.bytes, apart.bytes + apart.bytes / 50) << "parts take little";
}

TEST(SummedNorms, GiveTheSameBitsOnAnyNumberOfThreads) {
  const TrainedRun one = TrainSummed({.batch = kSummedBatch, .threads = 1});
  for (const int threads : {2, 3, 9}) {
    const TrainedRun more = TrainSummed({.batch = kSummedBatch, .threads = threads});
    EXPECT_EQ(more.losses, one.losses) << threads;
    EXPECT_TRUE(more.state == one.state) << threads;
  }
}

TEST(SummedNorms, AreSummedBeforeDepthwiseConvolutions) {
  for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
    const CompileOptions options{.batch = 3, .precision = precision, .threads = 1};
    TrainedRun summed = TrainSummed(options, true, kOfNormsBeforeDepthwise);
    TrainedRun apart = TrainSummed(options, false, kOfNormsBeforeDepthwise);
    EXPECT_EQ(summed.ops["conv_grad_input_sums"], 2) << Name(precision);
    EXPECT_EQ(apart.ops["conv_grad_input_sums"], 0);
    ExpectLossesNear(summed, apart, precision == DType::kFloat32 ? 1e-5 : 2e-3);
    const TrainedRun on_more =
        TrainSummed({.batch = 3, .precision = precision, .threads = 4}, true, kOfNormsBeforeDepthwise);
    EXPECT_EQ(on_more.losses, summed.losses) << Name(precision);
    EXPECT_TRUE(on_more.state == summed.state) << Name(precision);
  }
}

TEST(SummedNorms, GoWithWhatSavesMemory) {
  for (CompileOptions options : {CompileOptions{.batch = kSummedBatch, .recompute_sweeps = true},
                                 CompileOptions{.batch = kSummedBatch, .gradients_from_outputs = true}}) {
    options.threads = 2;
    TrainedRun summed = TrainSummed(options);
    EXPECT_GE(summed.ops["conv_grad_input_sums"], 3);
    ExpectLossesNear(summed, TrainSummed(options, false), 1e-4);
  }
}

TEST(SummedNorms, AreNotMadeWhereTheyWouldNotPay) {
  for (CompileOptions options :
       {CompileOptions{.batch = kSummedBatch, .precision = DType::kFloat64},
        CompileOptions{.batch = kSummedBatch, .precision = DType::kBFloat16},
        CompileOptions{.batch = kSummedBatch, .plain_kernels = true},
        CompileOptions{.batch = kSummedBatch, .split_products = true}, CompileOptions{.batch = 1}}) {
    options.threads = 2;
    EXPECT_EQ(TrainSummed(options).ops["conv_grad_input_sums"], 0);
  }
}

}  // namespace
}  // namespace snug::core
