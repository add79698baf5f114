#include "engine/compile/kernels/tuning.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

Tuning Example() {
  Tuning tuning{
      .platform = CpuPlatform(), .threads = 3, .disabled_passes = {"channels_last"}, .network = "n", .batch = 2};
  tuning.kernels["conv(float32[1, 2]) -> float32[3]"] = {"jit:avx2", 0.5, 0.75};
  return tuning;
}

class TuningTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(testing::TempDir(), "/tuning_test_", getpid(), "_", name);
  }
};

TEST_F(TuningTest, IsReadAsItWasWritten) {
  for (const char* name : {"a.pbtxt", "a.bin"}) {
    ASSERT_TRUE(SaveTuning(Example(), Path(name)).ok());
    const absl::StatusOr<Tuning> read = LoadTuning(Path(name), CpuPlatform());
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->Digest(), Example().Digest());
    EXPECT_EQ(read->threads, 3);
    EXPECT_EQ(read->disabled_passes, Example().disabled_passes);
    EXPECT_EQ(read->ChoiceFor("conv(float32[1, 2]) -> float32[3]"), "jit:avx2");
    EXPECT_EQ(read->ChoiceFor("conv(float32[1, 3]) -> float32[3]"), "");
  }
}

TEST_F(TuningTest, OfAnotherPlatformIsRefused) {
  ASSERT_TRUE(SaveTuning(Example(), Path("b.pbtxt")).ok());
  const auto message = [&](const Platform& here) {
    return std::string(LoadTuning(Path("b.pbtxt"), here).status().message());
  };
  Platform other = CpuPlatform();
  other.instructions = "sse9";
  EXPECT_THAT(message(other), HasSubstr("measured with another instruction set: "));
  EXPECT_THAT(message(other), HasSubstr(", here it is sse9; `snug tune` makes one for this machine"));
  other = CpuPlatform();
  other.library = "oneDNN 0.1";
  EXPECT_THAT(message(other), HasSubstr("another library"));
  other = CpuPlatform();
  other.device = "cuda";
  EXPECT_THAT(message(other), HasSubstr("another device"));
}

TEST_F(TuningTest, DigestsTellWhatComputesOtherBits) {
  Tuning other = Example();
  other.kernels.begin()->second.ms = 7;
  EXPECT_EQ(other.Digest(), Example().Digest());
  other.kernels.begin()->second.choice = "jit:sse41";
  EXPECT_NE(other.Digest(), Example().Digest());
}

// A network with two equal convolutions and one dense layer.
absl::StatusOr<Compiled> CompileWith(std::shared_ptr<const Tuning> tuning) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(R"(
    name: "n" input { name: "x" shape { dim: [16, 8, 8] } } input { name: "label" dtype: INT32 max_value: 3 }
    layer { name: "a" input: "x" conv { filters: 16 kernel: 3 pad: 1 } }
    layer { name: "b" input: "a" conv { filters: 16 kernel: 3 pad: 1 } }
    layer { name: "flat" input: "b" flatten {} }
    layer { name: "out" input: "flat" dense { units: 3 } }
    layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} } objective: "loss")",
                                                               "test");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                 {.batch = 2, .tuning = std::move(tuning), .list_choices = true});
}

TEST_F(TuningTest, DecidesForTheNodesThatItNames) {
#if !SNUG_HAS_ONEDNN
  GTEST_SKIP() << "built without oneDNN: one row serves each node here, so none offers anything";
#endif
  const absl::StatusOr<Compiled> own = CompileWith(nullptr);
  ASSERT_TRUE(own.ok()) << own.status().message();
  Tuning tuning;
  tuning.kernels["an op that is not there() -> float32[]"].choice = "nothing";
  int offered = 0;
  for (const KernelChoice& kernel : own->kernels) {
    EXPECT_EQ(kernel.choice, "");
    if (kernel.offered.empty()) continue;
    ++offered;
    tuning.kernels[kernel.key].choice = kernel.offered.back();
  }
  EXPECT_GE(offered, 3);  // the product, forward and backward
  const absl::StatusOr<Compiled> tuned = CompileWith(std::make_shared<const Tuning>(tuning));
  ASSERT_TRUE(tuned.ok()) << tuned.status().message();
  int chosen = 0;
  for (const KernelChoice& kernel : tuned->kernels) chosen += !kernel.choice.empty();
  EXPECT_EQ(chosen, offered);
}

// A product of 16 million multiply-adds is oneDNN's, unless it may be put together from pieces.
TEST_F(TuningTest, WhatIsTakenAnywayIsNotOffered) {
#if !SNUG_HAS_ONEDNN
  GTEST_SKIP() << "built without oneDNN: one row serves each node here, so none offers anything";
#endif
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(R"(
    name: "n" input { name: "x" shape { dim: 512 } }
    layer { name: "y" input: "x" dense { units: 512 } } output: "y")",
                                                               "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const bool split : {false, true}) {
    const absl::StatusOr<Compiled> compiled =
        Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                {.batch = 64, .training = false, .list_choices = true, .split_products = split});
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    int offering = 0;
    for (const KernelChoice& kernel : compiled->kernels) {
      if (kernel.offered.empty()) continue;
      ++offering;
      EXPECT_THAT(kernel.offered, testing::Not(testing::Contains(kernel.kernel->name))) << split;
    }
    EXPECT_EQ(offering, 1);
  }
}

// The library has no product with slopes: a name of its own would be the reference's there.
TEST_F(TuningTest, ProductsWithSlopesHaveNoChoice) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(R"(
    name: "n" input { name: "x" shape { dim: 320 } } input { name: "y" shape { dim: 320 } }
    layer { name: "a" input: "x" dense { units: 320 } } layer { name: "b" input: "a" gelu {} }
    layer { name: "c" input: "b" dense { units: 320 } } layer { name: "d" input: "c" relu {} }
    layer { name: "e" input: "d" dense { units: 320 } }
    layer { name: "loss" input: "e" input: "y" mean_squared_error {} } objective: "loss")",
                                                               "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                                    {.batch = 400, .training = true, .list_choices = true});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  int with_slopes = 0;
  for (const NodeId id : compiled->graph.ProgramOrder()) {
    if (!absl::StartsWith(compiled->graph.node(id).op, "dense_grad_input_")) continue;
    ++with_slopes;
    EXPECT_THAT(compiled->kernels[static_cast<size_t>(id.index)].offered, testing::IsEmpty());
  }
  EXPECT_EQ(with_slopes, 2);
}

TEST_F(TuningTest, AChoiceThatIsNotOfferedIsAnErrorThatNamesTheNode) {
#if !SNUG_HAS_ONEDNN
  GTEST_SKIP() << "built without oneDNN: one row serves each node here, so none offers anything";
#endif
  const absl::StatusOr<Compiled> own = CompileWith(nullptr);
  ASSERT_TRUE(own.ok()) << own.status().message();
  Tuning tuning;
  for (const KernelChoice& kernel : own->kernels) {
    if (!kernel.offered.empty()) tuning.kernels[kernel.key].choice = "abacus";
  }
  const std::string message(CompileWith(std::make_shared<const Tuning>(tuning)).status().message());
  EXPECT_THAT(message, HasSubstr("prepare: oneDNN has no \"abacus\" for this; the tuning asks for it"));
  EXPECT_THAT(message, testing::Not(HasSubstr("prepare: prepare:")));  // however many rows were tried
  EXPECT_THAT(message, HasSubstr("layer \"a\" (conv)"));
}

// A convolution that is measured is no library's: of what it has, all that is left is the reference.
TEST_F(TuningTest, AChoiceThatNoRowKnowsIsAnErrorAndNotTheReference) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(R"(
    name: "n" input { name: "x" shape { dim: [64, 12, 12] } }
    layer { name: "c" input: "x" conv { filters: 64 kernel: 3 pad: 1 bias: false } }
    layer { name: "b" input: "c" batch_norm {} } layer { name: "r" input: "b" relu {} }
    layer { name: "loss" input: "r" reduce_mean {} } objective: "loss")",
                                                               "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  CompileOptions options{.batch = 4, .training = true, .threads = 2, .list_choices = true};
  const absl::StatusOr<Compiled> own = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(own.ok()) << own.status().message();
  Tuning tuning;
  for (const NodeId id : own->graph.ProgramOrder()) {
    const KernelChoice& kernel = own->kernels[static_cast<size_t>(id.index)];
    if (own->graph.node(id).op == "conv_statistics") tuning.kernels[kernel.key].choice = "abacus";
  }
  ASSERT_EQ(tuning.kernels.size(), 1);
  options.tuning = std::make_shared<const Tuning>(std::move(tuning));
  const absl::StatusOr<Compiled> tuned = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_THAT(std::string(tuned.status().message()),
              HasSubstr("there is no kernel \"abacus\" for this, but winograd; the tuning asks for it"));
}

}  // namespace
}  // namespace snug::core
