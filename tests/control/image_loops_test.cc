// Images that rounds pass to each other and to the graph around them lie as convolutions want them: no round reorders
// what is carried, captured or kept for its gradient, and rolled or not, all values and gradients have the same bits.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

struct ImageLoop {
  std::string name, text;
  int reorders = 0;  // in the bodies of its loops
  std::vector<std::string> gradients = {"image"};
};

void PrintTo(const ImageLoop& loop, std::ostream* out) { *out << loop.name; }

constexpr char kResidual[] = R"(
  block { name: "residual" input: "x"
    layer { name: "conv1" input: "$x" conv { filters: 8 kernel: 3 pad: 1 } }
    layer { name: "norm" input: "conv1" group_norm { groups: 4 } }
    layer { name: "relu" input: "norm" relu {} }
    layer { name: "conv2" input: "relu" conv { filters: 8 kernel: 3 pad: 1 bias: false } }
    layer { name: "sum" input: "conv2" input: "$x" add {} }
    layer { name: "y" input: "sum" tanh {} }
    output: "y" }
)";

const std::vector<ImageLoop>& ImageLoops() {
  static const auto* const kLoops = new std::vector<ImageLoop>{
      {.name = "carried",
       .text = absl::StrCat(kResidual, R"(
         layer { name: "deep" input: "stem" loop { body: "residual" times: 5 carry { input: "x" output: "y" } } })"),
       .gradients = {"image", "stem.weight", "deep.conv1.weight", "deep.conv2.weight", "deep.norm.weight"}},
      // Its images come as they are fed, and are brought into another layout once, before the loop.
      {.name = "captured",
       .text = R"(
         block { name: "drawn" input: ["x", "image"]
           layer { name: "seen" input: "$image" conv { filters: 8 kernel: 3 pad: 1 } }
           layer { name: "sum" input: "seen" input: "$x" add {} }
           layer { name: "y" input: "sum" tanh {} }
           output: "y" }
         layer { name: "deep" input: ["stem", "image"]
           loop { body: "drawn" times: 3 carry { input: "x" output: "y" } } })",
       .gradients = {"image", "stem.weight", "deep.seen.weight"}},
      {.name = "names_change",
       .text = R"(
         block { name: "delay" input: ["a", "b", "c"]
           layer { name: "conv" input: "$c" conv { filters: 8 kernel: 3 pad: 1 } }
           layer { name: "y" input: "conv" input: "$a" add {} }
           output: "y" output: "$a" output: "$b" }
         layer { name: "other" input: "stem" square {} }
         layer { name: "delayed" input: ["stem", "other", "stem"] loop { body: "delay" times: 7
             carry { input: "a" output: "y" } carry { input: "b" output: "a" } carry { input: "c" output: "b" } } }
         layer { name: "deep" input: ["delayed", "delayed:2"] add {} })",
       .gradients = {"image", "stem.weight", "delayed.conv.weight"}},
      // What is scanned and collected is cut along an axis, as it is.
      {.name = "scanned",
       .text = R"(
         block { name: "film" input: ["frame", "x"]
           layer { name: "seen" input: "$frame" conv { filters: 8 kernel: 3 pad: 1 } }
           layer { name: "y" input: "seen" input: "$x" add {} }
           layer { name: "shown" input: "y" tanh {} }
           output: "y" output: "shown" }
         input { name: "frames" shape { dim: [4, 3, 6, 6] } }
         layer { name: "watched" input: ["frames", "stem"]
           loop { body: "film" scan { input: "frame" } carry { input: "x" output: "y" } collect { output: "shown" } } }
         layer { name: "loss_of_shown" input: "watched:1" reduce_mean {} }
         objective: "loss_of_shown"
         layer { name: "deep" input: "watched" relu {} })",
       .reorders = 4,
       .gradients = {"image", "frames", "stem.weight", "watched.seen.weight"}},
      // What the inner rounds keep is kept once more by the outer ones, and goes plain through that.
      {.name = "nested",
       .text = absl::StrCat(kResidual, R"(
         block { name: "outer" input: "x"
           layer { name: "inner" input: "$x" loop { body: "residual" times: 2 carry { input: "x" output: "y" } } }
           layer { name: "pool" input: "inner" max_pool { kernel: 3 stride: 1 pad: 1 } }
           layer { name: "y" input: "pool" input: "$x" add {} }
           output: "y" }
         layer { name: "deep" input: "stem" loop { body: "outer" times: 3 carry { input: "x" output: "y" } } })"),
       .reorders = 8,
       .gradients = {"image", "stem.weight", "deep.inner.conv1.weight"}},
      // Its carry is no image to any layer of the body.
      {.name = "flat",
       .text = R"(
         block { name: "flat" input: "x"
           layer { name: "row" input: "$x" flatten {} }
           layer { name: "fc" input: "row" dense { units: 288 } }
           layer { name: "act" input: "fc" tanh {} }
           layer { name: "y" input: "act" reshape { dim: [8, 6, 6] } }
           output: "y" }
         layer { name: "deep" input: "stem" loop { body: "flat" times: 3 carry { input: "x" output: "y" } } })",
       .gradients = {"image", "stem.weight", "deep.fc.weight"}},
      // Gradients of what a branch captured are put side by side, and those are plain.
      {.name = "branch",
       .text = absl::StrCat(kResidual, R"(
         block { name: "pooled" input: "x" layer { name: "y" input: "$x" avg_pool { kernel: 3 stride: 1 pad: 1 } } }
         input { name: "which" dtype: INT32 no_batch: true max_value: 2 }
         layer { name: "deep" input: ["which", "stem"] branch { body: "pooled" body: "residual" } })"),
       .reorders = 4,
       .gradients = {"image", "stem.weight"}},
  };
  return *kLoops;
}

std::string WholeText(const ImageLoop& loop) {
  return absl::StrCat(R"(
    batch: 2
    input { name: "image" shape { dim: [3, 6, 6] } }
    layer { name: "stem" input: "image" conv { filters: 8 kernel: 3 pad: 1 } }
    )",
                      loop.text, R"(
    layer { name: "pool" input: "deep" global_avg_pool {} }
    layer { name: "fc" input: "pool" dense { units: 4 } }
    layer { name: "squares" input: "fc" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")");
}

std::map<std::string, Numbers> FeedsOf(const std::string& text) {
  const auto numbers = [](int count, int shift) {
    Numbers made;
    for (int i = 0; i < count; ++i) made.push_back(std::sin(3.7 * static_cast<double>(i) + shift));
    return made;
  };
  std::map<std::string, Numbers> feeds = {{"image", numbers(2 * 3 * 36, 0)}};
  if (text.find("\"frames\"") != std::string::npos) feeds["frames"] = numbers(2 * 4 * 3 * 36, 1);
  if (text.find("\"which\"") != std::string::npos) feeds["which"] = {1};
  return feeds;
}

int ReordersInBodies(const Graph& graph, bool in_body = false) {
  int count = 0;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    if (in_body && node.op == "reorder") ++count;
    for (const auto& body : node.subgraphs) count += ReordersInBodies(*body, true);
  }
  return count;
}

class ImageLoopsTest : public testing::TestWithParam<ImageLoop> {};

TEST_P(ImageLoopsTest, HaveTheBitsOfTheirRounds) {
  const std::string text = WholeText(GetParam());
  std::vector<std::string> fetched = {"loss", "deep"};
  for (const std::string& name : GetParam().gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const DType precision : {DType::kFloat32, DType::kFloat64}) {
    const auto found = RunBothWays(text, FeedsOf(text), fetched,
                                   {.precision = precision, .threads = 2, .gradients = GetParam().gradients});
    for (const std::string& name : fetched) {
      EXPECT_TRUE(std::any_of(found.at(name).begin(), found.at(name).end(), [](double x) { return x != 0; })) << name;
    }
  }
}

TEST_P(ImageLoopsTest, AreNotReorderedInRounds) {
  const absl::StatusOr<Graph> graph =
      GraphAfter(WholeText(GetParam()), "56_channels_last", {.loops = LoopRule::kRolled});
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(ReordersInBodies(*graph), GetParam().reorders) << ToText(*graph);
}

INSTANTIATE_TEST_SUITE_P(Control, ImageLoopsTest, testing::ValuesIn(ImageLoops()),
                         [](const auto& info) { return info.param.name; });

// Rounds that are computed anew find their images as they were the first time.
TEST(ImageLoops, ThatComputeRoundsAnewHaveTheBitsOfTheirRounds) {
  const ImageLoop& loop = ImageLoops()[0];
  const std::string text = WholeText(loop);
  std::vector<std::string> fetched = {"loss"};
  for (const std::string& name : loop.gradients) fetched.push_back(absl::StrCat("d(", name, ")"));
  for (const int64_t rounds : {1, 2, 3}) {
    RunBothWays(text, FeedsOf(text), fetched,
                {.recompute_rounds = rounds,
                 .disabled_passes = {"common_subexpressions"},  // which would merge the rounds with the first ones
                 .gradients = loop.gradients});
  }
}

}  // namespace
}  // namespace snug::core::test
