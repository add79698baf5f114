// Predictions of how long kernels take on a GPU, from a device's numbers.
#include "engine/run/observe/roofline.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "engine/base/has_cuda.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::Contains;
using testing::HasSubstr;

DeviceModel H200() { return *FindDeviceModel("h200"); }

Compiled CompileFor(absl::string_view text, int64_t batch, bool training) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  CompileOptions options;
  options.device = {Device::Kind::kCuda, 0};
  options.precision = DType::kBFloat16;
  options.batch = batch;
  options.training = training;
  options.disabled_passes = {"fuse_elementwise"};
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Roofline Predict(absl::string_view text, int64_t batch = 1, const DeviceModel& device = H200(), bool training = false) {
  return PredictStep(CompileFor(text, batch, training), OpRegistry::Builtin(), device);
}

const PredictedKernel& KernelOf(const Roofline& roofline, absl::string_view op) {
  for (const PredictedKernel& kernel : roofline.kernels) {
    if (kernel.op == op) return kernel;
  }
  ADD_FAILURE() << "no kernel of " << op;
  return roofline.kernels[0];
}

std::string Dense(int64_t columns, int64_t results) {
  return absl::StrCat("input { name: \"x\" shape { dim: ", columns, R"( } }
    layer { name: "y" input: "x" dense { units: )",
                      results, R"( bias: false } }
    output: "y")");
}

std::string Relu(int64_t count) {
  return absl::StrCat("input { name: \"x\" shape { dim: ", count, R"( } }
    layer { name: "a" input: "x" relu {} }
    layer { name: "b" input: "a" relu {} }
    output: "b")");
}

TEST(DeviceModel, EveryKnownDeviceHasAllItsNumbers) {
  EXPECT_THAT(DeviceModelNames(), Contains("h200"));
  for (const std::string& name : DeviceModelNames()) {
    const absl::StatusOr<DeviceModel> model = FindDeviceModel(name);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->name, name);
    EXPECT_GT(model->l2_bytes_per_second, model->dram_bytes_per_second);
    EXPECT_GT(model->bfloat16_flops, model->float32_flops);
  }
  const absl::Status unknown = FindDeviceModel("b300").status();
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("expected a file, or one of h200, h100, a100, l4"));
}

TEST(DeviceModel, IsFoundByTheNameOfAGpu) {
  EXPECT_EQ(DeviceModelFor("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(DeviceModelFor("NVIDIA A100-SXM4-80GB"), "a100");
  EXPECT_EQ(DeviceModelFor("NVIDIA L4"), "l4");
  EXPECT_EQ(DeviceModelFor("NVIDIA L40S"), "");
}

TEST(DeviceModel, AFileHasToSayAll) {
  const std::string path = absl::StrCat(testing::TempDir(), "/device_", getpid(), ".pbtxt");
  std::ofstream(path) << "name: \"half\" processors: 66";
  EXPECT_THAT(std::string(FindDeviceModel(path).status().message()), HasSubstr("found no dram_gb_per_second"));
  const std::string rest =
      " dram_gb_per_second: 2400 l2_gb_per_second: 2750 l2_mb: 25 bfloat16_tflops: 494 tf32_tflops: 247 "
      "float32_tflops: 33 float64_tflops: 17 scattered_share: 0.4 library_product_share: 0.7 "
      "library_convolution_share: 0.3 own_tensor_core_share: 0.3 own_share: 0.3 launch_us: 1 latency_us: 1 step_us: 9 ";
  std::ofstream(path) << "name: \"half\" processors: 66 streaming_share: 1.5" << rest;
  EXPECT_THAT(std::string(FindDeviceModel(path).status().message()),
              HasSubstr("expected shares above 0 and at most 1"));
  std::ofstream(path) << "name: \"half\" processors: 66 streaming_share: 0.5" << rest;
  const absl::StatusOr<DeviceModel> half = FindDeviceModel(path);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->processors, 66);
  EXPECT_DOUBLE_EQ(half->dram_bytes_per_second, 2.4e12);
  EXPECT_DOUBLE_EQ(half->step_seconds, 9e-6);
}

class RooflineTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!SNUG_HAS_CUDA) GTEST_SKIP() << "SKIPPED: a build without CUDA has no kernels to predict";
  }
};

TEST_F(RooflineTest, LargeSweepsTakeWhatTheirBytesNeedAtTheShareOfTheBandwidth) {
  const DeviceModel device = H200();
  const int64_t count = int64_t{1} << 28;
  const PredictedKernel relu = KernelOf(Predict(Relu(count)), "relu");
  const double bytes = 2.0 * 2 * static_cast<double>(count);
  EXPECT_DOUBLE_EQ(relu.bytes, bytes);
  EXPECT_DOUBLE_EQ(relu.least_seconds, bytes / device.dram_bytes_per_second);
  EXPECT_NEAR(relu.seconds, bytes / device.dram_bytes_per_second / device.streaming_share, 3e-6);
}

TEST_F(RooflineTest, WhatWasJustWrittenIsReadFromTheCacheIfItFits) {
  const DeviceModel device = H200();
  const Roofline small = Predict(Relu(1 << 20));
  const Roofline large = Predict(Relu(1 << 26));
  const double written = 2.0 * (1 << 20) / device.dram_bytes_per_second;
  EXPECT_DOUBLE_EQ(small.kernels[0].least_seconds, 2 * written);  // the input comes from memory
  EXPECT_DOUBLE_EQ(small.kernels[1].least_seconds, written);
  EXPECT_DOUBLE_EQ(large.kernels[0].least_seconds, large.kernels[1].least_seconds);
}

TEST_F(RooflineTest, SmallKernelsAreLaunches) {
  const Roofline roofline = Predict(Relu(64));
  ASSERT_EQ(roofline.kernels.size(), 2);
  const DeviceModel device = H200();
  for (const PredictedKernel& kernel : roofline.kernels) {
    EXPECT_NEAR(kernel.seconds, device.launch_seconds + device.latency_seconds, 1e-9);
    EXPECT_EQ(kernel.why, "one launch");
  }
  EXPECT_NEAR(roofline.seconds, roofline.kernels[0].seconds + roofline.kernels[1].seconds + device.step_seconds, 1e-12);
}

TEST_F(RooflineTest, LargeProductsReachTheLibrarysShareAndOddRowsKeepTensorCoresOut) {
  const DeviceModel device = H200();
  const Roofline roofline = Predict(Dense(4096, 4096), 1 << 14);
  const PredictedKernel& even = KernelOf(roofline, "dense");
  EXPECT_EQ(even.kind, KernelKind::kLibraryProduct);
  EXPECT_NEAR(even.share(), device.library_product_share, 0.06);
  const Roofline with_odd = Predict(Dense(4096, 4097), 1 << 14);
  const PredictedKernel& odd = KernelOf(with_odd, "dense");
  EXPECT_GT(odd.seconds, 4 * even.seconds);
  EXPECT_THAT(odd.why, HasSubstr("keep tensor cores out"));
}

TEST_F(RooflineTest, AProductOfFewTilesLeavesProcessorsIdle) {
  const Roofline roofline = Predict(Dense(256, 256), 256);
  EXPECT_THAT(RooflineTable(roofline, {}), HasSubstr("below half of its roofline"));
  EXPECT_LT(KernelOf(roofline, "dense").share(), 0.5);
}

TEST_F(RooflineTest, ATrainingStepIsTheSumOfItsKernelsNoneOfWhichBeatsItsRoofline) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: 16 dim: 28 dim: 28 } }
    input { name: "label" shape {} dtype: INT32 max_value: 8 }
    layer { name: "conv" input: "x" conv { filters: 32 kernel: 3 pad: 1 bias: false } }
    layer { name: "norm" input: "conv" batch_norm {} }
    layer { name: "relu" input: "norm" relu {} }
    layer { name: "pool" input: "relu" global_avg_pool {} }
    layer { name: "logits" input: "pool" dense { units: 8 } }
    layer { name: "loss" input: "logits" input: "label" softmax_cross_entropy {} }
    objective: "loss")";
  const DeviceModel device = H200();
  const Roofline roofline = Predict(kNetwork, 32, device, /*training=*/true);
  double sum = 0, launches = 0;
  for (const PredictedKernel& kernel : roofline.kernels) {
    EXPECT_GE(kernel.seconds, kernel.least_seconds) << kernel.node;
    EXPECT_FALSE(kernel.why.empty()) << kernel.node;
    sum += kernel.seconds;
    launches += kernel.launches;
  }
  EXPECT_NEAR(roofline.seconds, sum + device.step_seconds, 1e-9);
  EXPECT_DOUBLE_EQ(roofline.launches, launches);
  EXPECT_EQ(roofline.samples, 32);
  EXPECT_EQ(KernelOf(roofline, "conv").kind, KernelKind::kLibraryConvolution);

  DeviceModel slower = device;
  slower.dram_bytes_per_second /= 2;
  slower.l2_bytes_per_second /= 2;
  slower.bfloat16_flops /= 2;
  const Roofline twice = Predict(kNetwork, 32, slower, /*training=*/true);
  EXPECT_GT(twice.least_seconds, 1.9 * roofline.least_seconds);

  std::vector<double> measured;
  for (const PredictedKernel& kernel : roofline.kernels) measured.push_back(2 * kernel.seconds);
  EXPECT_THAT(RooflineTable(roofline, measured), AllOf(HasSubstr("measured ms"), HasSubstr("2.00")));
}

TEST_F(RooflineTest, TokensAreCountedInTexts) {
  const Roofline roofline = Predict(R"(
    input { name: "tokens" shape { dim: 128 } dtype: INT32 max_value: 64 }
    layer { name: "y" input: "tokens" embedding { entries: 64 width: 32 } }
    output: "y")");
  EXPECT_EQ(roofline.positions, 128);
  EXPECT_THAT(RooflineTable(roofline, {}), HasSubstr("tokens/s"));
}

}  // namespace
}  // namespace snug::core
