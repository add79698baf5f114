// Batch norms whose statistics come with the convolution before them: what they change, and what they leave alone.
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

// By panels, by Winograd's filtering, and depthwise with a shortcut.
constexpr char kMeasured[] = R"(
  input { name: "x" shape { dim: [64, 20, 19] } }
  layer { name: "c1" input: "x" conv { filters: 64 kernel: 1 bias: false } }
  layer { name: "n1" input: "c1" batch_norm {} }
  layer { name: "r1" input: "n1" relu {} }
  layer { name: "c2" input: "r1" conv { filters: 64 kernel: 3 pad: 1 bias: false } }
  layer { name: "n2" input: "c2" batch_norm {} }
  layer { name: "c3" input: "n2" conv { kernel: 3 pad: 1 depthwise: true bias: false } }
  layer { name: "n3" input: "c3" batch_norm {} }
  layer { name: "sum" input: "n3" input: "r1" add {} }
  layer { name: "r3" input: "sum" relu6 {} }
)";
// Two that are not measured: of groups, and of few pixels. The library's sums may depend on the threads.
constexpr char kOthers[] = R"(
  layer { name: "c4" input: "r3" conv { filters: 64 kernel: 3 stride: 3 groups: 2 bias: false } }
  layer { name: "n4" input: "c4" batch_norm {} }
  layer { name: "r4" input: "n4" relu {} }
  layer { name: "c5" input: "r4" conv { filters: 24 kernel: 1 stride: 2 } }
  layer { name: "n5" input: "c5" batch_norm {} }
)";

std::string Network(bool with_others) {
  return absl::StrCat(kMeasured, with_others ? kOthers : "", R"(
    layer { name: "tanh" input: ")",
                      with_others ? "n5" : "r3", R"(" tanh {} }
    layer { name: "squared" input: "tanh" square {} }
    layer { name: "loss" input: "squared" reduce_mean {} }
    objective: "loss"
  )");
}

TrainedRun TrainNorms(CompileOptions options, bool measured = true, bool with_others = true) {
  if (!measured) options.disabled_passes = {"measure_in_convolution"};
  return TrainSteps(Network(with_others), options, 4);
}

void ExpectNear(const TrainedRun& a, const TrainedRun& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], tolerance) << "step " << i;
}

constexpr int64_t kBatch = 6;  // of 2280 pixels, which count as many

TEST(MeasuredNorms, TrainAsThoseThatMeasureThemselves) {
  const CompileOptions options{.batch = kBatch, .threads = 2};
  TrainedRun measured = TrainNorms(options), apart = TrainNorms(options, false);
  EXPECT_EQ(measured.ops["conv_statistics"], 3);
  EXPECT_EQ(measured.ops["batch_norm_inference_fused"], 2);
  EXPECT_EQ(measured.ops["batch_norm_inference"], 1);
  EXPECT_EQ(measured.ops["batch_norm_fused"], 1);
  EXPECT_EQ(measured.ops["batch_norm"], 1);
  EXPECT_EQ(apart.ops["conv_statistics"], 0);
  ExpectNear(measured, apart, 1e-5);
  EXPECT_LE(measured.bytes, apart.bytes + apart.bytes / 50) << "parts take little";
}

TEST(MeasuredNorms, GiveTheSameBitsOnAnyNumberOfThreads) {
  const TrainedRun one = TrainNorms({.batch = kBatch, .threads = 1}, true, /*with_others=*/false);
  for (const int threads : {2, 3, 9}) {
    const TrainedRun more = TrainNorms({.batch = kBatch, .threads = threads}, true, /*with_others=*/false);
    EXPECT_EQ(more.losses, one.losses) << threads;
    EXPECT_TRUE(more.state == one.state) << threads;
  }
}

TEST(MeasuredNorms, GoWithWhatSavesMemory) {
  for (CompileOptions options : {CompileOptions{.batch = kBatch, .recompute_sweeps = true},
                                 CompileOptions{.batch = kBatch, .gradients_from_outputs = true}}) {
    options.threads = 2;
    TrainedRun measured = TrainNorms(options);
    EXPECT_EQ(measured.ops["conv_statistics"], 3);
    ExpectNear(measured, TrainNorms(options, false), 1e-4);
  }
}

TEST(MeasuredNorms, OfBFloat16AreDepthwise) {
  const CompileOptions options{.batch = kBatch, .precision = DType::kBFloat16, .threads = 2};
  TrainedRun measured = TrainNorms(options);
  EXPECT_EQ(measured.ops["conv_statistics"], 1);
  ExpectNear(measured, TrainNorms(options, false), 2e-2);
}

TEST(MeasuredNorms, AreNotMadeOfDoublesOrPlainKernels) {
  for (CompileOptions options : {CompileOptions{.batch = kBatch, .precision = DType::kFloat64},
                                 CompileOptions{.batch = kBatch, .plain_kernels = true}}) {
    options.threads = 2;
    EXPECT_EQ(TrainNorms(options).ops["conv_statistics"], 0);
  }
}

}  // namespace
}  // namespace snug::core
