// The passes by which training needs less (docs/memory.md): the same training without each of them, to the bit or to
// rounding, in fewer bytes.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "proto/network.pb.h"
#include "proto/options.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

struct PassRun {
  std::vector<std::byte> state;
  std::map<std::string, int> ops;  // how many nodes of each run
  int64_t step_bytes = 0;
};

// Three steps. `without`: a pass that is left out; empty: none.
PassRun TrainWithout(const std::string& network, const std::string& without, CompileOptions options) {
  if (!without.empty()) options.disabled_passes = {without};
  const auto session = MakeSession(network, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((*session)->Run().ok());
  PassRun run{
      .state = StateBytes(**session), .ops = {}, .step_bytes = (*session)->compiled().executable.memory.step_bytes()};
  const Compiled& compiled = (*session)->compiled();
  for (const Step& step : compiled.executable.steps) ++run.ops[compiled.graph.node(step.node).op];
  return run;
}

// The gradients that `options` ask for, after one step, one behind the other.
std::vector<double> GradientsWithout(const std::string& network, const std::string& without, CompileOptions options) {
  if (!without.empty()) options.disabled_passes = {without};
  std::vector<double> all;
  const auto session = MakeSession(network, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok() || !(*session)->Run().ok()) return all;
  for (const std::string& name : options.gradients) {
    const auto fetched = (*session)->Fetch("d(" + name + ")");
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    if (fetched.ok()) all.insert(all.end(), fetched->begin(), fetched->end());
  }
  return all;
}

// Windows that overlap, so that an element may be the largest of several, and some that are all 0.
TEST(LessMemory, AMaskBehindPoolingGivesTheSameBits) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: [3, 32, 32] } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "conv1" input: "x" conv { filters: 16 kernel: 3 pad: 1 } }
    layer { name: "relu1" input: "conv1" relu {} }
    layer { name: "pool1" input: "relu1" max_pool { kernel: 3 stride: 2 pad: 1 } }
    layer { name: "conv2" input: "pool1" conv { filters: 16 kernel: 3 pad: 1 } }
    layer { name: "relu2" input: "conv2" relu6 {} }
    layer { name: "pool2" input: "relu2" max_pool { kernel: 2 } }
    layer { name: "flat" input: "pool2" flatten {} }
    layer { name: "fc" input: "flat" dense { units: 10 } }
    layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
    objective: "loss"
  )";
  for (const bool plain : {false, true}) {
    const CompileOptions options{.batch = 8, .threads = 2, .plain_kernels = plain};
    const PassRun after = TrainWithout(kNetwork, "pool_after_mask", options);
    const PassRun before = TrainWithout(kNetwork, "", options);
    EXPECT_TRUE(before.state == after.state);
    EXPECT_LT(before.step_bytes, after.step_bytes);
  }
}

// Windows that overlap and windows that do not, of channels that are whole groups and of such that are none.
TEST(LessMemory, IndicesOfHalfBytesGiveTheSameBits) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: [3, 33, 31] } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "conv1" input: "x" conv { filters: 80 kernel: 3 pad: 1 } }
    layer { name: "pool1" input: "conv1" max_pool { kernel: 3 stride: 2 ceil_mode: true } }
    layer { name: "conv2" input: "pool1" conv { filters: 48 kernel: 1 } }
    layer { name: "pool2" input: "conv2" max_pool { kernel: 3 stride: 1 pad: 1 } }
    layer { name: "conv3" input: "pool2" conv { filters: 16 kernel: 1 } }
    layer { name: "pool3" input: "conv3" max_pool { kernel: 2 } }
    layer { name: "conv4" input: "pool3" conv { filters: 12 kernel: 1 } }
    layer { name: "pool4" input: "conv4" max_pool { kernel: 2 } }
    layer { name: "flat" input: "pool4" flatten {} }
    layer { name: "fc" input: "flat" dense { units: 10 } }
    layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
    objective: "loss"
  )";
  for (const DType precision : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (const int threads : {1, 2}) {
      CompileOptions options{.batch = 5, .precision = precision, .threads = threads};
      options.memory.strategy = "none";  // which counts them wherever the peak may be
      const PassRun whole = TrainWithout(kNetwork, "", options);
      options.half_byte_indices = true;
      const PassRun halves = TrainWithout(kNetwork, "", options);
      EXPECT_TRUE(halves.state == whole.state) << Name(precision) << ", " << threads << " threads";
      EXPECT_LT(halves.step_bytes, whole.step_bytes);
      EXPECT_EQ(halves.ops.at("max_pool_half_bytes"), 3);
      EXPECT_EQ(halves.ops.at("max_pool_half_bytes_grad"), 3);
      EXPECT_EQ(halves.ops.at("max_pool_grad"), 1) << "12 channels are no whole group";
    }
  }
}

// Sums of gradients are those of products here, which a processor may add unrounded: other last bits.
TEST(LessMemory, BatchNormWithSiluIsTheSameToRounding) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: [3, 16, 16] } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "conv1" input: "x" conv { filters: 24 kernel: 3 pad: 1 bias: false } }
    layer { name: "norm1" input: "conv1" batch_norm {} }
    layer { name: "act1" input: "norm1" silu {} }
    layer { name: "conv2" input: "act1" conv { filters: 24 kernel: 3 pad: 1 bias: false } }
    layer { name: "norm2" input: "conv2" batch_norm {} }
    layer { name: "act2" input: "norm2" silu {} }
    layer { name: "mean" input: "act2" global_avg_pool {} }
    layer { name: "fc" input: "mean" dense { units: 10 } }
    layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
    objective: "loss"
  )";
  for (const DType precision : {DType::kFloat32, DType::kFloat64}) {
    CompileOptions options{.batch = 8, .precision = precision, .threads = 2};
    const PassRun fused = TrainWithout(kNetwork, "", options);
    EXPECT_EQ(fused.ops.at("batch_norm_silu"), 2);
    EXPECT_EQ(fused.ops.at("batch_norm_silu_grad"), 2);
    EXPECT_EQ(fused.ops.count("silu"), 0u);
    EXPECT_LT(fused.step_bytes, TrainWithout(kNetwork, "fuse_batch_norm_silu", options).step_bytes);
    options.gradients = {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias", "conv1.weight"};
    const std::vector<double> together = GradientsWithout(kNetwork, "", options);
    const std::vector<double> apart = GradientsWithout(kNetwork, "fuse_batch_norm_silu", options);
    ASSERT_EQ(together.size(), apart.size());
    const double tolerance = precision == DType::kFloat64 ? 1e-14 : 1e-6;
    double largest = 0;
    for (size_t i = 0; i < apart.size(); ++i) {
      EXPECT_NEAR(together[i], apart[i], tolerance);
      largest = std::max(largest, std::abs(apart[i]));
    }
    EXPECT_GT(largest, 1e-3) << "gradients of 0 would show nothing";
  }
}

// What batch norm gives is fetched, or has another reader: it has to be there.
TEST(LessMemory, BatchNormWithSiluStaysApartWhereWhatIsBetweenIsRead) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: [3, 8, 8] } }
    input { name: "y" shape { dim: 3 } }
    layer { name: "norm" input: "x" batch_norm {} }
    layer { name: "act" input: "norm" silu {} }
    layer { name: "mean" input: "act" global_avg_pool {} }
    layer { name: "fc" input: "mean" dense { units: 3 } }
    layer { name: "loss" input: "fc" input: "y" mean_squared_error {} }
    objective: "loss"
  )";
  CompileOptions options{.batch = 4, .threads = 1};
  EXPECT_EQ(TrainWithout(kNetwork, "", options).ops.count("silu"), 0u);
  options.fetch = {"norm"};
  EXPECT_EQ(TrainWithout(kNetwork, "", options).ops.at("silu"), 1);
  options = {.batch = 4, .precision = DType::kBFloat16, .threads = 1};
  EXPECT_EQ(TrainWithout(kNetwork, "", options).ops.at("silu"), 1) << "the value between is rounded";
}

TEST(LessMemory, AGatesGradientFromItsProductIsTheSameToRounding) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: [8, 12, 12] } }
    input { name: "y" shape { dim: 3 } }
    layer { name: "conv" input: "x" conv { filters: 32 kernel: 3 pad: 1 bias: false } }
    layer { name: "norm" input: "conv" batch_norm {} }
    layer { name: "act" input: "norm" silu {} }
    layer { name: "mean" input: "act" global_avg_pool { keep_dims: true } }
    layer { name: "of_means" input: "mean" conv { filters: 32 kernel: 1 } }
    layer { name: "gate" input: "of_means" sigmoid {} }
    layer { name: "gated" input: "act" input: "gate" mul {} }
    layer { name: "conv2" input: "gated" conv { filters: 8 kernel: 1 } }
    layer { name: "means" input: "conv2" global_avg_pool {} }
    layer { name: "fc" input: "means" dense { units: 3 } }
    layer { name: "loss" input: "fc" input: "y" mean_squared_error {} }
    objective: "loss"
  )";
  CompileOptions options{
      .batch = 4, .precision = DType::kFloat64, .threads = 1, .gradients = {"of_means.bias", "conv.weight"}};
  const std::vector<double> from_output = GradientsWithout(kNetwork, "", options);
  const std::vector<double> from_input = GradientsWithout(kNetwork, "gate_from_output", options);
  ASSERT_EQ(from_output.size(), from_input.size());
  ASSERT_GT(from_output.size(), 32u);
  double largest = 0;
  for (size_t i = 0; i < from_output.size(); ++i) {
    EXPECT_NEAR(from_output[i], from_input[i], 1e-14);
    largest = std::max(largest, std::abs(from_input[i]));
  }
  EXPECT_GT(largest, 1e-6) << "gradients of 0 would show nothing";
  options = {.batch = 4, .threads = 1};
  EXPECT_LT(TrainWithout(kNetwork, "", options).step_bytes,
            TrainWithout(kNetwork, "gate_from_output", options).step_bytes);

  // A gate that is nearly open: what is left of it to one is small, and must not come from a difference of large
  // numbers.
  const std::string open = absl::StrReplaceAll(
      kNetwork,
      {{"input: \"mean\" conv { filters: 32 kernel: 1 }",
        "input: \"mean\" conv { filters: 32 kernel: 1 } param { name: \"bias\" init { kind: CONSTANT value: 9 } }"}});
  options.gradients = {"of_means.bias"};
  const std::vector<double> in_float = GradientsWithout(open, "", options);
  const std::vector<double> in_float_before = GradientsWithout(open, "gate_from_output", options);
  options.precision = DType::kFloat64;
  const std::vector<double> exact = GradientsWithout(open, "", options);
  ASSERT_EQ(in_float.size(), 32u);
  double found = 0, before = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    found += std::abs(in_float[i] - exact[i]);
    before += std::abs(in_float_before[i] - exact[i]);
    all += std::abs(exact[i]);
  }
  EXPECT_LE(found, std::max(1.5 * before, 1e-4 * all));
  EXPECT_GT(all, 0);
}

// What a dense layer multiplies is a parameter, too, and its update comes first: the weight's gradient is made of what
// it was before.
TEST(LessMemory, AGradientMadeOfAParameterIsMadeBeforeItsUpdate) {
  constexpr char kNetwork[] = R"(
    layer { name: "latents" parameter { dim: [64, 512] init { kind: NORMAL value: 1 } } }
    layer { name: "proj" input: "latents" dense { units: 4096 bias: false } }
    layer { name: "bounded" input: "proj" tanh {} }
    layer { name: "sq" input: "bounded" square {} }
    layer { name: "mean" input: "sq" reduce_mean {} }
    layer { name: "loss" input: "mean" scale { factor: 1000 } }
    objective: "loss"
    optimizer { learning_rate: 0.5 sgd { momentum: 0 } }
  )";
  for (const bool option : {false, true}) {
    const CompileOptions options{.threads = 2, .update_as_made = option};
    const PassRun run = TrainWithout(kNetwork, "", options);
    EXPECT_TRUE(run.state == TrainWithout(kNetwork, "update_as_made_exactly", {.threads = 2}).state) << option;
  }
}

// A table of 4 MB that two lookups and the last layer read, whose product is large enough for our own loops.
constexpr char kTied[] = R"(
  input { name: "a" shape { dim: 48 } dtype: INT32 max_value: 4000 }
  input { name: "b" shape { dim: 48 } dtype: INT32 max_value: 4000 }
  input { name: "label" shape { dim: 48 } dtype: INT32 max_value: 4000 }
  layer { name: "words" input: "a" embedding { entries: 4000 width: 280 } }
  layer { name: "more" input: "b" embedding { entries: 4000 width: 280 } param { name: "weight" tie: "words.weight" } }
  layer { name: "sum" input: "words" input: "more" add {} }
  layer { name: "norm" input: "sum" layer_norm {} }
  layer { name: "head" input: "norm" dense { units: 4000 bias: false } param { name: "weight" tie: "words.weight" } }
  layer { name: "loss" input: "head" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";
constexpr int64_t kTable = 4000 * 280 * 4;

TEST(LessMemory, LookupsOfATiedTableAreListedWithTheSameBits) {
  CompileOptions options{.batch = 1, .threads = 2, .fetch = {}, .gradients = {"words.weight"}};  // nothing is joined
  const PassRun whole = TrainWithout(kTied, "list_rows_of_sums", options);
  const PassRun listed = TrainWithout(kTied, "", options);
  EXPECT_EQ(whole.ops.at("embedding_grad"), 2);
  EXPECT_EQ(listed.ops.count("embedding_grad"), 0u);
  EXPECT_EQ(listed.ops.at("add_listed_rows"), 1);
  EXPECT_TRUE(listed.state == whole.state);
  EXPECT_LT(listed.step_bytes + kTable / 2, whole.step_bytes);
}

TEST(LessMemory, UpdatesAsMadeByDefaultGiveTheSameBits) {
  for (const char* const optimizer_text : {"learning_rate: 0.1 sgd {}", "learning_rate: 0.1 sgd { momentum: 0.9 }",
                                           "learning_rate: 0.01 weight_decay: 0.1 adamw {}"}) {
    SCOPED_TRACE(optimizer_text);
    const proto::Optimizer optimizer = proto::ParseOptions<proto::Optimizer>(optimizer_text).Get<proto::Optimizer>();
    CompileOptions options{.batch = 1, .threads = 2, .optimizer = &optimizer};
    const PassRun apart = TrainWithout(kTied, "update_as_made_exactly", options);
    const PassRun as_made = TrainWithout(kTied, "", options);
    EXPECT_EQ(apart.ops.at("add_listed_rows"), 1);
    EXPECT_EQ(as_made.ops.count("add_listed_rows"), 0u);
    EXPECT_EQ(as_made.ops.count("dense_grad_weight"), 0u);
    EXPECT_TRUE(as_made.state == apart.state);
    EXPECT_LT(as_made.step_bytes + kTable / 2, apart.step_bytes);
    options.threads = 1;
    EXPECT_TRUE(TrainWithout(kTied, "", options).state == as_made.state) << "the number of threads changes bits";
  }
}

// An input of 8.9 MB is not packed as a whole: all threads make a block together.
TEST(LessMemory, UpdatesAsMadeOfALargeInputGiveTheSameBits) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: 8192 } }
    input { name: "y" shape { dim: 300 } }
    layer { name: "fc" input: "x" dense { units: 300 } }
    layer { name: "loss" input: "fc" input: "y" mean_squared_error {} }
    objective: "loss"
  )";
  const CompileOptions options{.batch = 272, .threads = 2};
  const PassRun as_made = TrainWithout(kNetwork, "", options);
  EXPECT_EQ(as_made.ops.count("dense_grad_weight"), 0u);
  EXPECT_TRUE(as_made.state == TrainWithout(kNetwork, "update_as_made_exactly", options).state);
}

// A product that a library computes may have other bits in blocks, and stays whole; unless it is one product an
// element.
TEST(LessMemory, ByDefaultOnlyWhatHasTheSameBitsIsMadeInBlocks) {
  constexpr char kNetwork[] = R"(
    input { name: "x" shape { dim: 1024 } }
    input { name: "y" shape { dim: 1100 } }
    layer { name: "fc" input: "x" dense { units: 1100 bias: false } }
    layer { name: "loss" input: "fc" input: "y" mean_squared_error {} }
    objective: "loss"
  )";
  for (const auto& [batch, joined] : {std::pair(1, true), std::pair(4, false), std::pair(32, true)}) {
    const CompileOptions options{.batch = batch, .threads = 2};
    const PassRun apart = TrainWithout(kNetwork, "update_as_made_exactly", options);
    const PassRun as_made = TrainWithout(kNetwork, "", options);
    EXPECT_EQ(as_made.ops.count("dense_momentum_update"), joined ? 1u : 0u) << batch;
    EXPECT_EQ(as_made.ops.count("dense_grad_weight"), joined ? 0u : 1u) << batch;
    EXPECT_TRUE(as_made.state == apart.state) << batch;
  }
}

}  // namespace
}  // namespace snug::core
