// What the memory note says of whole networks, found by the pipeline itself: the graphs, orders and lifetimes here are
// those that a user's model file gets.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

Compiled CompileByStrategy(const std::string& text, const std::string& strategy, CompileOptions options = {}) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  options.plain_kernels = true;
  options.memory.strategy = strategy;
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return *std::move(compiled);
}

std::set<std::string> NoFusion() { return {"fuse_cross_entropy", "fuse_batch_norm", "fuse_activation"}; }

// Where the buffers lie, by name.
std::map<std::string, int64_t> OffsetsOf(const Compiled& compiled) {
  const memory::TaskPlan& step = compiled.executable.memory.step;
  std::map<std::string, int64_t> offsets;
  for (size_t i = 0; i < step.problem.buffers.size(); ++i) {
    offsets[step.problem.buffers[i].name] = step.placement.plan.offsets[i];
  }
  return offsets;
}

// The note's perceptron of two layers. A, the parameters and their gradients are the caller's.
TEST(MemoryNoteByThePipeline, ThePerceptronOfTwoLayers) {
  CompileOptions options{.disabled_passes = NoFusion(), .gradients = {"A"}};
  const Compiled compiled = CompileByStrategy(R"(
    batch: 8
    input { name: "A" shape { dim: 16 } }
    input { name: "label" dtype: INT32 }
    layer { name: "fc1"  input: "A"    param { name: "weight" frozen: true } dense { units: 16 bias: false } }
    layer { name: "act1" input: "fc1"  sigmoid {} }
    layer { name: "fc2"  input: "act1" param { name: "weight" frozen: true } dense { units: 16 bias: false } }
    layer { name: "out"  input: "fc2"  log_softmax {} }
    layer { name: "loss" input: "out" input: "label" nll_loss {} }
    objective: "loss"
  )",
                                              "both", options);
  const std::map<std::string, int64_t> at = OffsetsOf(compiled);
  EXPECT_EQ(at.at("act1"), at.at("fc1"));
  EXPECT_EQ(at.at("act1/sigmoid_grad"), at.at("act1"));  // d(fc1), which reads act1
  EXPECT_EQ(at.at("out"), at.at("fc2"));
  EXPECT_EQ(at.at("out/log_softmax_grad"), at.at("out"));                   // d(fc2)
  EXPECT_EQ(at.at("fc1/dense_grad_input"), at.at("fc2/dense_grad_input"));  // d(A) and d(act1)
  EXPECT_NE(at.at("fc2"), at.at("act1"));
  // Nothing else is that large: A itself goes before fc2 comes.
  EXPECT_EQ(at.at("A"), at.at("fc2"));
}

int64_t StepBytes(const std::string& text, const std::string& strategy, CompileOptions options = {}) {
  return CompileByStrategy(text, strategy, std::move(options)).executable.memory.step_bytes();
}

// Layers of 1024 bytes, one after the other; every backward node reads what its forward node wrote.
std::string Chain(int layers) {
  std::string text = "input { name: \"x0\" shape { dim: 256 } }\n";
  for (int i = 1; i <= layers; ++i) {
    absl::SubstituteAndAppend(&text, "layer { name: \"x$0\" input: \"x$1\" sigmoid {} }\n", i, i - 1);
  }
  return absl::StrCat(text, "objective: \"x", layers, "\"\n");
}

TEST(MemoryNoteByThePipeline, AChainOfNLayersTakesTwoCellsALayerWithoutSharing) {
  constexpr int64_t kCell = 1024;
  const auto cells_a_layer = [&](const std::string& strategy, const CompileOptions& options) {
    const int64_t bytes = StepBytes(Chain(50), strategy, options) - StepBytes(Chain(30), strategy, options);
    EXPECT_EQ(bytes % (20 * kCell), 0) << strategy;
    return bytes / (20 * kCell);
  };
  const CompileOptions training{.gradients = {"x0"}};
  EXPECT_EQ(cells_a_layer("none", training), 2);
  EXPECT_EQ(cells_a_layer("both", training), 1);  // what the backward pass reads; each gradient is written over another
  EXPECT_EQ(cells_a_layer("best", training), 1);
  const CompileOptions forward{.training = false};
  EXPECT_EQ(cells_a_layer("none", forward), 1);
  EXPECT_EQ(cells_a_layer("both", forward), 0);
}

// Six layers of a perceptron: products with bias and activation in one node each, or a node for each of the three.
std::string Perceptron(bool fine) {
  std::string text = "batch: 64 input { name: \"x0\" shape { dim: 128 } }\n";
  for (int i = 1; i <= 6; ++i) {
    if (fine) {
      absl::SubstituteAndAppend(&text, R"(
        layer { name: "bias$0" parameter { dim: 128 } }
        layer { name: "p$0" input: "x$1" dense { units: 128 bias: false } }
        layer { name: "b$0" input: "p$0" input: "bias$0" add {} })",
                                i, i - 1);
    } else {
      absl::SubstituteAndAppend(&text, "layer { name: \"b$0\" input: \"x$1\" dense { units: 128 } }", i, i - 1);
    }
    absl::SubstituteAndAppend(&text, "layer { name: \"x$0\" input: \"b$0\" relu {} }\n", i);
  }
  return absl::StrCat(text, "objective: \"x6\"\n");
}

TEST(MemoryNoteByThePipeline, FineNodesGainMoreFromSharingThanCoarseOnes) {
  const CompileOptions split{.disabled_passes = NoFusion()};
  const int64_t coarse_none = StepBytes(Perceptron(false), "none"),
                fine_none = StepBytes(Perceptron(true), "none", split);
  const int64_t coarse_both = StepBytes(Perceptron(false), "both"),
                fine_both = StepBytes(Perceptron(true), "both", split);
  EXPECT_GT(fine_none, coarse_none);
  EXPECT_GT(fine_none - fine_both, coarse_none - coarse_both);
  EXPECT_LT(fine_both * coarse_none, coarse_both * fine_none);  // in parts of what they take without, too
}

// x is read by two slices that overlap. Their gradients end in one buffer as large as x, and nothing is filled with
// zeros.
TEST(GradientsOfSlices, OverlappingOnesNeedOneBufferAndNoZeros) {
  constexpr int64_t kWhole = 4 * 4096;
  const std::string text = R"(
    input { name: "x"  shape { dim: 4096 } }
    input { name: "w1" shape { dim: 3072 } }
    input { name: "w2" shape { dim: 2048 } }
    layer { name: "x1" input: "x" slice { axis: 1 end: 3072 } }
    layer { name: "y1" input: "x1" input: "w1" mul {} }
    layer { name: "x2" input: "x" slice { axis: 1 begin: 2048 } }
    layer { name: "y2" input: "x2" input: "w2" mul {} }
    layer { name: "z1" input: "y1" reduce_sum {} }
    layer { name: "z2" input: "y2" reduce_sum {} }
    objective: "z1"
    objective: "z2"
  )";
  const auto count = [&](const Compiled& compiled) {
    int whole = 0, zeros = 0;
    for (const memory::Buffer& buffer : compiled.executable.memory.step.problem.buffers) {
      whole += buffer.size_bytes == kWhole && buffer.name != "x" ? 1 : 0;
    }
    for (const NodeId node : compiled.graph.ProgramOrder()) {
      const Node& n = compiled.graph.node(node);
      zeros += n.op == "slice_grad" || absl::StrContains(n.name, "zeros") ? 1 : 0;
    }
    return std::make_pair(whole, zeros);
  };
  const Compiled joined = CompileByStrategy(text, "none", {.gradients = {"x"}});
  EXPECT_EQ(count(joined), std::make_pair(1, 0));
  const CompileOptions padded{.disabled_passes = {"join_slices"}, .gradients = {"x"}};
  EXPECT_EQ(count(CompileByStrategy(text, "none", padded)), std::make_pair(3, 2));  // two among zeros, and their sum
  EXPECT_LT(StepBytes(text, "both", {.gradients = {"x"}}), StepBytes(text, "both", padded));
}

}  // namespace
}  // namespace snug::core
