// A last layer and its loss in blocks of rows: the same training to rounding, without the logits of all rows.
#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

struct BlocksRun {
  std::vector<std::byte> state;
  std::vector<double> losses;
  std::map<std::string, int> ops;  // how many nodes of each run
  int64_t step_bytes = 0;
  std::string in_vain;
};

BlocksRun TrainBlocks(const std::string& network, CompileOptions options, bool in_blocks) {
  options.loss_in_blocks = in_blocks;
  const auto session = MakeSession(network, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  BlocksRun run;
  for (int i = 0; i < 4; ++i) {
    const absl::Status ran = (*session)->Run();
    EXPECT_TRUE(ran.ok()) << ran;
    const auto loss = (*session)->Fetch("loss");
    EXPECT_TRUE(loss.ok()) << loss.status();
    if (loss.ok()) run.losses.push_back(loss->at(0));
  }
  run.state = StateBytes(**session);
  const Compiled& compiled = (*session)->compiled();
  run.step_bytes = compiled.executable.memory.step_bytes();
  run.in_vain = InVainText(compiled);
  for (const Step& step : compiled.executable.steps) ++run.ops[compiled.graph.node(step.node).op];
  return run;
}

// 25 rows a sample. The head's weights are those of the table, too.
constexpr char kTiedHead[] = R"(
  input { name: "ids" dtype: INT32 max_value: 700 shape { dim: 25 } }
  input { name: "label" dtype: INT32 max_value: 700 shape { dim: 25 } }
  layer { name: "words" input: "ids" embedding { entries: 700 width: 24 } }
  layer { name: "norm" input: "words" layer_norm {} }
  layer { name: "fc" input: "norm" dense { units: 24 } }
  layer { name: "head" input: "fc" dense { units: 700 } param { name: "weight" tie: "words.weight" } }
  layer { name: "loss" input: "head" input: "label" softmax_cross_entropy { label_smoothing: 0.1 ignore_index: 7 } }
  objective: "loss"
)";

TEST(LossInBlocks, TrainingIsTheSameToRounding) {
  const std::string apart = absl::StrReplaceAll(kTiedHead, {{"param { name: \"weight\" tie: \"words.weight\" }", ""}});
  for (const std::string& network : {std::string(kTiedHead), apart}) {
    for (const auto& [precision, tolerance] : {std::pair(DType::kFloat64, 1e-11), std::pair(DType::kFloat32, 1e-5)}) {
      const CompileOptions options{
          .batch = 64, .precision = precision, .threads = 2};  // 1600 rows: 6 blocks and a part
      const BlocksRun whole = TrainBlocks(network, options, false);
      const BlocksRun run = TrainBlocks(network, options, true);
      EXPECT_EQ(run.ops.at("dense_cross_entropy"), 1);
      EXPECT_EQ(run.ops.count("softmax_cross_entropy"), 0u);
      EXPECT_EQ(run.ops.count("softmax_cross_entropy_grad"), 0u);
      ASSERT_EQ(run.losses.size(), whole.losses.size());
      for (size_t i = 0; i < run.losses.size(); ++i) EXPECT_NEAR(run.losses[i], whole.losses[i], tolerance) << i;
      EXPECT_LT(run.losses.back(), run.losses.front());
      EXPECT_LT(run.step_bytes, 0.6 * static_cast<double>(whole.step_bytes));
    }
  }
}

TEST(LossInBlocks, EveryStrategyGivesTheSameBits) {
  for (const int threads : {1, 2}) {
    CompileOptions options{.batch = 64, .threads = threads};
    options.memory.strategy = "none";
    const BlocksRun truth = TrainBlocks(kTiedHead, options, true);
    for (const char* const strategy : {"both", "nnc", "best"}) {
      for (const int streams : {1, 2}) {
        options.memory.strategy = strategy;
        options.memory.streams = streams;
        EXPECT_TRUE(TrainBlocks(kTiedHead, options, true).state == truth.state)
            << strategy << ", " << streams << ", " << threads;
      }
    }
  }
}

// And says so. Fewer rows than a block; logits that another layer reads, or that are fetched; a narrow type.
TEST(LossInBlocks, ItStaysAwayWhereItMayNotBe) {
  const std::string read = std::string(kTiedHead) + R"(layer { name: "max" input: "head" reduce_max { axis: -1 } })";
  const BlocksRun few = TrainBlocks(kTiedHead, {.batch = 10}, true);
  EXPECT_EQ(few.ops.count("dense_cross_entropy"), 0u);
  EXPECT_THAT(few.in_vain, HasSubstr("--loss-in-blocks changes nothing in this network"));
  EXPECT_EQ(TrainBlocks(read, {.batch = 64, .fetch = {"max"}}, true).ops.count("dense_cross_entropy"), 0u);
  EXPECT_EQ(TrainBlocks(kTiedHead, {.batch = 64, .fetch = {"head"}}, true).ops.count("dense_cross_entropy"), 0u);
  EXPECT_EQ(TrainBlocks(kTiedHead, {.batch = 64, .precision = DType::kBFloat16}, true).ops.count("dense_cross_entropy"),
            0u);
  const BlocksRun many = TrainBlocks(kTiedHead, {.batch = 64}, true);
  EXPECT_EQ(many.ops.count("dense_cross_entropy"), 1u);
  EXPECT_EQ(many.in_vain, "");
}

TEST(LossInBlocks, AWrongLabelIsAnErrorBeforeAnyUpdate) {
  const auto session = MakeSession(std::string(kTiedHead), {.batch = 64, .loss_in_blocks = true});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run().ok());
  std::vector<double> labels(1600, 5);
  labels[1200] = 700;
  ASSERT_TRUE((*session)->Feed("label", labels).ok());
  const std::vector<std::byte> before = StateBytes(**session);
  const absl::Status ran = (*session)->Run();
  EXPECT_THAT(std::string(ran.message()), HasSubstr("row 1200: expected a class in [0, 700)"));
  EXPECT_THAT(std::string(ran.message()), HasSubstr("head+loss"));
  EXPECT_TRUE(StateBytes(**session) == before);
}

TEST(LossInBlocks, ItIsForTheProcessor) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  ASSERT_TRUE(loaded.ok());
  const auto compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                     {.device = {Device::Kind::kCuda}, .loss_in_blocks = true});
  EXPECT_THAT(std::string(compiled.status().message()), HasSubstr("loss-in-blocks: is for the CPU"));
}

}  // namespace
}  // namespace snug::core
