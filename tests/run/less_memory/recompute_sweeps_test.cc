// What is computed again for the backward pass is what it was, and what the forward pass made of it takes no memory.
#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

struct SweptRun {
  std::vector<std::byte> state;
  int64_t bytes = 0, bound = 0;
  int again = 0;  // how many nodes compute something again
};

SweptRun TrainSweeps(const absl::StatusOr<LoadedNetwork>& loaded, const CompileOptions& options) {
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  const auto session = MakeSession(*loaded, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  for (int i = 0; i < 2; ++i) EXPECT_TRUE((*session)->Run().ok());
  const Compiled& compiled = (*session)->compiled();
  SweptRun run{.state = StateBytes(**session), .bytes = compiled.executable.memory.step_bytes()};
  for (const Step& step : compiled.executable.steps) {
    run.again += absl::EndsWith(compiled.graph.node(step.node).name, "/again") ? 1 : 0;
  }
  return run;
}

double LargestDifference(const SweptRun& a, const SweptRun& b) {
  EXPECT_EQ(a.state.size(), b.state.size());
  double largest = 0;
  for (size_t i = 0; i + sizeof(double) <= a.state.size(); i += sizeof(double)) {
    double x = 0;
    double y = 0;
    std::memcpy(&x, a.state.data() + i, sizeof(double));
    std::memcpy(&y, b.state.data() + i, sizeof(double));
    if (std::abs(x) < 1e6 && std::abs(x) > 1e-6) largest = std::max(largest, std::abs(x - y));  // no counters
  }
  return largest;
}

TEST(RecomputeSweeps, TrainingIsTheSameToRounding) {
  for (const auto& [model, image] : {std::pair("resnet20", 8), std::pair("conv_zoo", 0)}) {
    SCOPED_TRACE(model);
    const auto loaded = LoadModel(model, image);
    CompileOptions options{.batch = 2, .precision = DType::kFloat64, .threads = 2};
    const SweptRun once = TrainSweeps(loaded, options);
    options.recompute_sweeps = true;
    const SweptRun again = TrainSweeps(loaded, options);
    EXPECT_EQ(once.again, 0);
    EXPECT_GT(again.again, 0);
    EXPECT_LT(LargestDifference(once, again), 1e-9);
  }
}

// Where no batch norm is, what is computed again is so by the same op from the same bits. silu reads what layer norm
// makes, so one is made again of the other. What relu gives pooling is not kept (the pass pool_after_mask), so pooling
// stays.
TEST(RecomputeSweeps, WithoutBatchNormItIsTheSameToTheBit) {
  const auto loaded = LoadNetworkText(R"(
    input { name: "x" shape { dim: [3, 16, 16] } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "conv" input: "x" conv { filters: 8 kernel: 3 pad: 1 } }
    layer { name: "relu" input: "conv" relu {} }
    layer { name: "pool" input: "relu" max_pool { kernel: 2 stride: 2 } }
    layer { name: "conv2" input: "pool" conv { filters: 8 kernel: 3 pad: 1 } }
    layer { name: "flat" input: "conv2" flatten {} }
    layer { name: "fc1"  input: "flat" dense { units: 64 } }
    layer { name: "norm" input: "fc1"  layer_norm {} }
    layer { name: "silu" input: "norm" silu {} }
    layer { name: "fc2"  input: "silu" dense { units: 64 } }
    layer { name: "gelu" input: "fc2"  gelu {} }
    layer { name: "fc3"  input: "gelu" dense { units: 10 } }
    layer { name: "loss" input: "fc3" input: "label" softmax_cross_entropy {} }
    objective: "loss"
  )",
                                      "test");
  CompileOptions options{.batch = 4, .threads = 2};
  const SweptRun once = TrainSweeps(loaded, options);
  options.recompute_sweeps = true;
  const SweptRun again = TrainSweeps(loaded, options);
  EXPECT_EQ(again.again, 3) << "norm, silu and gelu";
  EXPECT_TRUE(once.state == again.state);
}

TEST(RecomputeSweeps, EveryStrategyGivesTheSameBits) {
  const auto loaded = LoadModel("resnet20", 8);
  CompileOptions options{.batch = 2, .threads = 1, .recompute_sweeps = true};
  options.memory.strategy = "none";
  const SweptRun truth = TrainSweeps(loaded, options);
  for (const char* const strategy : {"both", "nnc", "best"}) {
    for (const int streams : {1, 2}) {
      options.memory.strategy = strategy;
      options.memory.streams = streams;
      EXPECT_TRUE(TrainSweeps(loaded, options).state == truth.state) << strategy << ", " << streams;
    }
  }
}

// Every convolution's result and what batch norm and relu make of it stay without; with it the former alone, but for
// the sums of every second block.
TEST(RecomputeSweeps, AResNetTakesMuchLess) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("resnet20");
  ASSERT_TRUE(loaded.ok());
  int64_t bytes[2];
  for (const bool recompute : {false, true}) {
    const auto compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                  {.batch = 64, .threads = 1, .recompute_sweeps = recompute});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    bytes[recompute ? 1 : 0] = compiled->executable.memory.step_bytes();
  }
  EXPECT_LT(static_cast<double>(bytes[1]), 0.75 * static_cast<double>(bytes[0]));
}

TEST(RecomputeSweeps, ItIsForTheProcessor) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok());
  const auto compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                     {.device = {Device::Kind::kCuda}, .recompute_sweeps = true});
  EXPECT_THAT(std::string(compiled.status().message()), HasSubstr("recompute-sweeps: is for the CPU"));
}

}  // namespace
}  // namespace snug::core
