// --split-products in whole trainings (ops/kernels/matmul/split_gemm.h): what is put together from pieces, and that it
// gives the same to rounding, and the same bits each time.
#include <absl/algorithm/container.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "ops/kernels/matmul/split_gemm.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

// Of the convolutions `wide` and `strided` have 1 x 1 taps and enough channels.
constexpr char kConvsOfOneTap[] = R"(
  input { name: "image" shape { dim: [3, 20, 20] } }
  input { name: "label" dtype: INT32 max_value: 9 }
  layer { name: "stem" input: "image" conv { filters: 80 kernel: 3 pad: 1 } }
  layer { name: "bent" input: "stem" relu {} }
  layer { name: "wide" input: "bent" conv { filters: 144 kernel: 1 } }
  layer { name: "bent2" input: "wide" relu {} }
  layer { name: "strided" input: "bent2" conv { filters: 80 kernel: 1 stride: 2 } }
  layer { name: "pool" input: "strided" global_avg_pool {} }
  layer { name: "flat" input: "pool" flatten {} }
  layer { name: "fc" input: "flat" dense { units: 10 } }
  layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
  objective: "loss"
)";

struct SplitRun {
  std::vector<std::byte> state;
  std::vector<double> losses;
  std::vector<std::string> split;  // names of nodes that are put together from pieces
};

SplitRun TrainSplit(CompileOptions options) {
  options.batch = 8;
  const auto session = MakeSession(kConvsOfOneTap, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  const Compiled& compiled = (*session)->compiled();
  SplitRun trained{.state = {}, .losses = Losses(**session, 4), .split = {}};
  trained.state = StateBytes(**session);
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    if (compiled.kernels[static_cast<size_t>(id.index)].choice == "split") {
      trained.split.push_back(compiled.graph.node(id).name);
    }
  }
  absl::c_sort(trained.split);
  return trained;
}

TEST(SplitProductsOfNetworks, ConvolutionsOfOneTapAreAsExact) {
  if (!MachineSplitsProducts()) GTEST_SKIP() << "this processor has no AMX for bfloat16, or SNUG_ISA is set";
  const SplitRun whole = TrainSplit({.threads = 2});
  const SplitRun split = TrainSplit({.threads = 2, .split_products = true});
  EXPECT_TRUE(whole.split.empty());
  EXPECT_EQ(split.split,
            (std::vector<std::string>{"strided", "strided/conv_grad_input", "wide+bent2", "wide/conv_grad_input"}));
  ASSERT_EQ(whole.losses.size(), split.losses.size());
  for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(split.losses[i], whole.losses[i], 1e-5);
  EXPECT_FALSE(split.state == whole.state);
  EXPECT_TRUE(TrainSplit({.threads = 2, .split_products = true}).state == split.state) << "each time";
}

}  // namespace
}  // namespace snug::core
