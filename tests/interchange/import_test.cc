// Small ONNX models, and the networks that they become.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/base/status.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"
#include "proto/network_writer.h"
#include "tests/interchange/onnx_text.h"

namespace snug::core::onnx {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;

std::string TextOf(const absl::StatusOr<ImportedModel>& imported) {
  return imported.ok() ? WriteNetworkText(*imported->network) : std::string(imported.status().message());
}

TEST(ImportOnnx, ANetworkForImagesAsOneWouldWriteIt) {
  OnnxText model;
  model.Input("image", {0, 3, 8, 8});
  model.Weight("features.0.weight", {4, 3, 3, 3});
  model.Weight("onnx::Conv_7", {4, 1, 3, 3});
  model.Weight("onnx::Conv_8", {4});
  model.Weight("classifier.weight", {2, 4});
  model.Weight("classifier.bias", {2});
  model.Nodes(R"(
    node { op_type: "Conv" name: "/features/features.0/Conv" input: ["image", "features.0.weight"] output: "a"
           attribute { name: "pads" ints: [1, 1, 1, 1] } attribute { name: "strides" ints: [2, 2] } }
    node { op_type: "Relu" name: "/features/features.1/Relu" input: "a" output: "b" }
    node { op_type: "Conv" name: "/features/features.2/Conv" input: ["b", "onnx::Conv_7", "onnx::Conv_8"] output: "c"
           attribute { name: "group" i: 4 } }
    node { op_type: "Add" name: "/Add" input: ["c", "c"] output: "d" }
    node { op_type: "GlobalAveragePool" name: "/pool/GlobalAveragePool" input: "d" output: "e" }
    node { op_type: "Flatten" name: "/Flatten" input: "e" output: "f" }
    node { op_type: "Gemm" name: "/classifier/Gemm" input: ["f", "classifier.weight", "classifier.bias"] output: "scores"
           attribute { name: "transB" i: 1 } }
  )");
  model.Output("scores");
  const absl::StatusOr<ImportedModel> imported = model.Import({.loss = "softmax_cross_entropy"});
  EXPECT_EQ(TextOf(imported), R"(name: "test"

input { name: "image" shape { dim: [3, 8, 8] } }
input { name: "label" dtype: INT32 max_value: 2 }

layer { name: "features.0" input: "image" conv { filters: 4 kernel: 3 stride: 2 pad: 1 bias: false } }
layer { name: "features.1" input: "features.0" relu {} }
layer { name: "features.2" input: "features.1" conv { kernel: 3 depthwise: true } }
layer { name: "add" input: "features.2" input: "features.2" add {} }
layer { name: "pool" input: "add" global_avg_pool {} }
layer { name: "classifier" input: "pool" dense { units: 2 } }
layer { name: "loss" input: "classifier" input: "label" softmax_cross_entropy {} }
layer { name: "accuracy" input: "classifier" input: "label" accuracy {} }

objective: "loss"
output: "classifier"
output: "accuracy"
)");
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->weights.count("features.0.weight"), 1U);
  EXPECT_EQ(imported->weights.at("features.2.bias").dims(), Dims({4}));
  ASSERT_EQ(imported->outputs.size(), 1U);
  EXPECT_EQ(imported->outputs[0].second, "classifier");
}

TEST(ImportOnnx, SizesThatExportersComputeAreFolded) {
  OnnxText model;
  model.Input("x", {0, 4, 6});
  model.Nodes(R"(
    node { op_type: "Shape" input: "x" output: "shape" }
    node { op_type: "Constant" output: "zero" attribute { name: "value" t { data_type: 7 int64_data: 0 } } }
    node { op_type: "Gather" input: ["shape", "zero"] output: "n" attribute { name: "axis" i: 0 } }
    node { op_type: "Constant" output: "first" attribute { name: "value_ints" ints: [0] type: INTS } }
    node { op_type: "Unsqueeze" input: ["n", "first"] output: "n1" }
    node { op_type: "Constant" output: "rest" attribute { name: "value" t { dims: 2 data_type: 7 int64_data: [2, -1] } } }
    node { op_type: "Concat" input: ["n1", "rest"] output: "to" attribute { name: "axis" i: 0 } }
    node { op_type: "Reshape" input: ["x", "to"] output: "y" }
    node { op_type: "Relu" input: "y" output: "z" }
  )");
  model.Output("z");
  const std::string text = TextOf(model.Import());
  EXPECT_THAT(text, HasSubstr("reshape { dim: [2, 12] }"));
  EXPECT_THAT(text, Not(HasSubstr("constant")));
}

// [batch, length, width] to [length, batch * heads, width / heads] and back, as PyTorch's attention has it: the batch
// is found again, and what was merged with it.
TEST(ImportOnnx, ABatchThatIsMovedAndMergedIsFoundAgain) {
  OnnxText model;
  model.Input("x", {0, 3, 4});
  model.Ints("merged", {3}, {3, -1, 2});
  model.Ints("apart", {3}, {3, -1, 4});
  model.Nodes(R"(
    node { op_type: "Transpose" input: "x" output: "a" attribute { name: "perm" ints: [1, 0, 2] } }
    node { op_type: "Reshape" input: ["a", "merged"] output: "b" }
    node { op_type: "Transpose" input: "b" output: "q" attribute { name: "perm" ints: [1, 0, 2] } }
    node { op_type: "Transpose" input: "b" output: "k" attribute { name: "perm" ints: [1, 2, 0] } }
    node { op_type: "MatMul" input: ["q", "k"] output: "scores" }
    node { op_type: "Softmax" input: "scores" output: "shares" attribute { name: "axis" i: -1 } }
    node { op_type: "MatMul" input: ["shares", "q"] output: "c" }
    node { op_type: "Transpose" input: "c" output: "d" attribute { name: "perm" ints: [1, 0, 2] } }
    node { op_type: "Reshape" input: ["d", "apart"] output: "e" }
    node { op_type: "Transpose" input: "e" output: "y" attribute { name: "perm" ints: [1, 0, 2] } }
  )");
  model.Output("y");
  const absl::StatusOr<ImportedModel> imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  std::vector<double> x;
  for (int i = 0; i < 24; ++i) x.push_back(std::sin(i * 1.7));
  std::vector<double> expected(24);
  for (int n = 0; n < 2; ++n) {
    for (int h = 0; h < 2; ++h) {
      const auto at = [&](int row, int k) { return x[static_cast<size_t>(n * 12 + row * 4 + h * 2 + k)]; };
      for (int i = 0; i < 3; ++i) {
        double sum = 0, out[2] = {0, 0};
        for (int j = 0; j < 3; ++j) {
          const double share = std::exp(at(i, 0) * at(j, 0) + at(i, 1) * at(j, 1));
          sum += share;
          for (int k = 0; k < 2; ++k) out[k] += share * at(j, k);
        }
        for (int k = 0; k < 2; ++k) expected[static_cast<size_t>(n * 12 + i * 4 + h * 2 + k)] = out[k] / sum;
      }
    }
  }
  const absl::StatusOr<std::vector<double>> y = Evaluate(*imported, imported->outputs[0].second, 2, {{"x", x}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(*y, Pointwise(DoubleNear(1e-5), expected));
}

TEST(ImportOnnx, FormulasAreTheLayersThatTheyMean) {
  OnnxText model(13);
  model.Input("x", {0, 5, 4});
  model.Weight("norm.weight", {4});
  model.Weight("norm.bias", {4});
  model.Weight("epsilon", {}, {1e-6F});
  model.Weight("two", {}, {2});
  model.Weight("root", {}, {1.41421356F});
  model.Weight("one", {}, {1});
  model.Weight("half", {}, {0.5F});
  model.Nodes(R"(
    node { op_type: "ReduceMean" input: "x" output: "m" attribute { name: "axes" ints: [-1] type: INTS } }
    node { op_type: "Sub" input: ["x", "m"] output: "c" }
    node { op_type: "Pow" input: ["c", "two"] output: "s" }
    node { op_type: "ReduceMean" input: "s" output: "v" attribute { name: "axes" ints: [-1] type: INTS } }
    node { op_type: "Add" input: ["v", "epsilon"] output: "ve" }
    node { op_type: "Sqrt" input: "ve" output: "d" }
    node { op_type: "Div" input: ["c", "d"] output: "n" }
    node { op_type: "Mul" input: ["n", "norm.weight"] output: "nw" }
    node { op_type: "Add" input: ["nw", "norm.bias"] output: "normed" }
    node { op_type: "Div" input: ["normed", "root"] output: "e1" }
    node { op_type: "Erf" input: "e1" output: "e2" }
    node { op_type: "Add" input: ["e2", "one"] output: "e3" }
    node { op_type: "Mul" input: ["normed", "e3"] output: "e4" }
    node { op_type: "Mul" input: ["e4", "half"] output: "g" }
    node { op_type: "Sigmoid" input: "g" output: "sg" }
    node { op_type: "Mul" input: ["g", "sg"] output: "y" }
  )");
  model.Output("y");
  EXPECT_THAT(TextOf(model.Import()), HasSubstr(R"(
layer { name: "norm" input: "x" layer_norm { epsilon: 1e-06 } }
layer { name: "e2" input: "norm" gelu {} }
layer { name: "sg" input: "e2" silu {} }
)"));
}

TEST(ImportOnnx, AClassTokenIsAParameterOfEverySample) {
  OnnxText model;
  model.Input("x", {0, 2, 3});
  model.Weight("cls.token", {1, 1, 3}, {7, 8, 9});
  model.Nodes(R"(
    node { op_type: "Shape" input: "x" output: "shape" attribute { name: "start" i: 0 } attribute { name: "end" i: 1 } }
    node { op_type: "Constant" output: "rest" attribute { name: "value" t { dims: 2 data_type: 7 int64_data: [-1, -1] } } }
    node { op_type: "Constant" output: "ones" attribute { name: "value" t { dims: 2 data_type: 7 int64_data: [1, 3] } } }
    node { op_type: "Concat" input: ["shape", "ones"] output: "to" attribute { name: "axis" i: 0 } }
    node { op_type: "Expand" input: ["cls.token", "to"] output: "tokens" }
    node { op_type: "Concat" input: ["tokens", "x"] output: "y" attribute { name: "axis" i: 1 } }
  )");
  model.Output("y");
  const absl::StatusOr<ImportedModel> imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto y =
      Evaluate(*imported, imported->outputs[0].second, 2, {{"x", {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(*y, ElementsAre(7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3, -4, -5, -6));
  EXPECT_EQ(imported->weights.size(), 1U);
}

TEST(ImportOnnx, OneMatrixInTwoPlacesIsTied) {
  OnnxText model;
  model.Input("tokens", {0, 3}, 7);
  model.Weight("wte.weight", {5, 4});
  model.Nodes(R"(
    node { op_type: "Gather" input: ["wte.weight", "tokens"] output: "e" }
    node { op_type: "Transpose" input: "wte.weight" output: "t" attribute { name: "perm" ints: [1, 0] } }
    node { op_type: "MatMul" input: ["e", "t"] output: "y" }
  )");
  model.Output("y");
  const absl::StatusOr<ImportedModel> imported = model.Import();
  EXPECT_THAT(TextOf(imported), HasSubstr(R"(tie: "wte.weight")"));
  EXPECT_THAT(TextOf(imported), HasSubstr(R"(input { name: "tokens" shape { dim: 3 } dtype: INT32 max_value: 5 })"));
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->weights.size(), 1U);
}

TEST(ImportOnnx, AllThatIsMissingIsListedByNode) {
  OnnxText model;
  model.Input("x", {0, 3, 4});
  model.Weight("w", {4, 4});
  model.Nodes(R"(
    node { op_type: "LSTM" name: "rnn" input: ["x", "w", "w"] output: "a" }
    node { op_type: "Relu" name: "after" input: "a" output: "b" }
    node { op_type: "ReduceMean" name: "over_batch" input: "x" output: "c" attribute { name: "axes" ints: [0] type: INTS } }
    node { op_type: "Softmax" name: "odd" input: "x" output: "d" attribute { name: "temperature" f: 2 } }
    node { op_type: "FusedThing" domain: "com.microsoft" name: "other" input: "x" output: "e" }
    node { op_type: "Relu" name: "dangling" input: "nowhere" output: "f" }
  )");
  model.Output("b");
  model.Output("c");
  const absl::Status status = model.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "test.onnx: 5 things cannot be imported:\n"
            "  node \"rnn\" (LSTM): this op is not imported\n"
            "  node \"over_batch\" (ReduceMean): reduces over the batch: Snug does that in losses only\n"
            "  node \"odd\" (Softmax): attribute temperature is not understood\n"
            "  node \"other\" (com.microsoft.FusedThing): only ops of ONNX's own domain are imported\n"
            "  node \"dangling\" (Relu): reads \"nowhere\", which is not there");
}

// What a file says and a shorter reading of it would get wrong. The numbers are onnxruntime's.
TEST(ImportOnnx, WhatLooksAlikeIsReadAsItIs) {
  struct Case {
    const char* nodes;
    std::vector<double> x, expected;
    int type = 1;
  };
  const std::vector<Case> cases = {
      // A mask of whole numbers, of which any but 0 holds.
      {R"(node { op_type: "Cast" input: "x" output: "truth" attribute { name: "to" i: 9 } }
          node { op_type: "Cast" input: "truth" output: "y" attribute { name: "to" i: 1 } })",
       {5, 0, -3},
       {1, 0, 1},
       7},
      // One number for more elements than x has.
      {R"(node { op_type: "Constant" output: "size" attribute { name: "value" t { dims: 2 data_type: 7 int64_data: [1, 6] } } }
          node { op_type: "ConstantOfShape" input: "size" output: "ones"
                 attribute { name: "value" t { dims: 1 data_type: 1 float_data: 1 } } }
          node { op_type: "ReduceSum" input: ["x", "axes"] output: "sum" }
          node { op_type: "Add" input: ["sum", "ones"] output: "y" })",
       {1, 2, 3},
       {7, 7, 7, 7, 7, 7}},
      // All axes, where the list of them is empty.
      {R"(node { op_type: "ReduceSum" input: ["three", "none"] output: "sum" }
          node { op_type: "Mul" input: ["x", "sum"] output: "y" })",
       {1, 2, 3},
       {60, 120, 180}},
      // Whole numbers of few bits.
      {R"(node { op_type: "Cast" input: "wide" output: "narrow" attribute { name: "to" i: 2 } }
          node { op_type: "Cast" input: "narrow" output: "floats" attribute { name: "to" i: 1 } }
          node { op_type: "Add" input: ["x", "floats"] output: "y" })",
       {0, 0, 0},
       {44, 255, 5}},
      // A number that takes nine digits.
      {R"(node { op_type: "Constant" output: "large" attribute { name: "value_float" f: 16777215 } }
          node { op_type: "Sub" input: ["x", "large"] output: "y" })",
       {16777215, 16777214, 16777216},
       {0, -1, 1}},
      // A quotient that is whole, and rounded down.
      {R"(node { op_type: "Constant" output: "bucket" attribute { name: "value_float" f: 41 } }
          node { op_type: "Div" input: ["x", "bucket"] output: "quotient" }
          node { op_type: "Floor" input: "quotient" output: "y" })",
       {41, 82, 83},
       {1, 2, 2}},
      // Constants before what is computed.
      {R"(node { op_type: "Sum" input: ["three", "three", "x"] output: "sum" }
          node { op_type: "Mean" input: ["three", "three", "sum", "sum"] output: "y" })",
       {1, 2, 3},
       {15.5, 31, 46.5}},
      // No window begins in the padding at the end.
      {R"(node { op_type: "Unsqueeze" input: ["x", "axes"] output: "image" }
          node { op_type: "MaxPool" input: "image" output: "pooled" attribute { name: "kernel_shape" ints: [2] type: INTS }
                 attribute { name: "strides" ints: [2] type: INTS } attribute { name: "pads" ints: [0, 2] type: INTS } attribute { name: "ceil_mode" i: 1 } }
          node { op_type: "Squeeze" input: ["pooled", "axes"] output: "y" })",
       {1, 3, 2},
       {3, 2}},
  };
  for (const Case& c : cases) {
    OnnxText model;
    model.Input("x", {0, 3}, c.type);
    model.Ints("axes", {1}, {1});
    model.Ints("none", {0}, {});
    model.Weight("three", {3}, {10, 20, 30});
    model.Ints("wide", {3}, {300, -1, 5});
    model.Nodes(c.nodes);
    model.Output("y");
    const absl::StatusOr<ImportedModel> imported = model.Import();
    ASSERT_TRUE(imported.ok()) << imported.status() << c.nodes;
    const auto y = Evaluate(*imported, imported->outputs[0].second, 1, {{"x", c.x}});
    ASSERT_TRUE(y.ok()) << y.status() << c.nodes;
    EXPECT_THAT(*y, ElementsAreArray(c.expected)) << c.nodes;
  }
}

// Its numbers would be those of one number of samples.
TEST(ImportOnnx, ANetworkDoesNotComputeWithTheNumberOfItsSamples) {
  OnnxText model;
  model.Input("x", {0, 3});
  model.Nodes(R"(node { op_type: "Size" input: "x" output: "size" }
                 node { op_type: "Cast" input: "size" output: "number" attribute { name: "to" i: 1 } }
                 node { op_type: "Div" input: ["x", "number"] output: "y" })");
  model.Output("y");
  EXPECT_THAT(model.Import().status().message(),
              HasSubstr("layer \"y\": its numbers depend on how many samples there are, which the file leaves open"));
}

TEST(ImportOnnx, AWeightMayBeReadAsItIsToo) {
  for (const bool first : {false, true}) {
    OnnxText model;
    model.Input("x", {0, 2, 2});
    model.Weight("p.weight", {2, 2}, {1, 2, 3, 4});
    model.Weight("slope", {1, 2, 1}, {0.5, 0.25});
    model.Nodes(first ? R"(node { op_type: "Add" input: ["x", "p.weight"] output: "a" }
                           node { op_type: "MatMul" input: ["a", "p.weight"] output: "b" })"
                      : R"(node { op_type: "MatMul" input: ["x", "p.weight"] output: "a" }
                           node { op_type: "Add" input: ["a", "p.weight"] output: "b" })");
    model.Nodes(R"(node { op_type: "PRelu" input: ["b", "slope"] output: "y" })");
    model.Output("y");
    const absl::StatusOr<ImportedModel> imported = model.Import();
    ASSERT_TRUE(imported.ok()) << imported.status();
    const auto y = Evaluate(*imported, imported->outputs[0].second, 1, {{"x", {-1, 0, 0, -2}}});
    ASSERT_TRUE(y.ok()) << y.status();
    if (first) {
      EXPECT_THAT(*y, ElementsAre(6, 8, 9, 14));
    } else {
      EXPECT_THAT(*y, ElementsAre(0, 0, -0.75, -1));
    }
  }
}

TEST(ImportOnnx, WhatComputesNothingIsSaid) {
  OnnxText model;
  model.Input("x", {0, 3});
  model.Nodes(R"(node { op_type: "Identity" input: "x" output: "y" })");
  model.Output("y");
  EXPECT_EQ(model.Import().status().message(), "test.onnx: computes nothing: its outputs are its inputs");
}

TEST(ImportOnnx, NodesWithoutNamesAreCounted) {
  OnnxText model;
  model.Input("x", {0, 3});
  model.Weight("matrices", {2, 3, 3});
  model.Nodes(R"(node { op_type: "Relu" input: "x" output: "a" }
                 node { op_type: "Relu" input: "a" output: "b" }
                 node { op_type: "MatMul" input: ["b", "matrices"] output: "y" })");
  model.Output("y");
  EXPECT_EQ(std::string(model.Import().status().message()),
            "test.onnx: 1 thing cannot be imported:\n  node 2 of \"y\" (MatMul): input 1: its axes would stand before "
            "the batch");
}

TEST(ImportOnnx, AFormulaWhosePartsAreReadElsewhereIsNoLayer) {
  const auto import = [](const char* more, const char* axes, const char* output) {
    OnnxText model;
    model.Input("x", {0, 2, 3});
    model.Weight("w", {3}, {1, 2, 3});
    model.Weight("b", {3}, {0, 1, 0});
    model.Nodes(absl::StrCat(
        R"(node { op_type: "ReduceMean" input: "x" output: "mean" attribute { name: "axes" ints: [-1] type: INTS } }
           node { op_type: "Sub" input: ["x", "mean"] output: "centred" }
           node { op_type: "Mul" input: ["centred", "centred"] output: "square" }
           node { op_type: "ReduceMean" input: "square" output: "variance" attribute { name: "axes" ints: )",
        axes, R"( type: INTS } }
           node { op_type: "Constant" output: "epsilon" attribute { name: "value_float" f: 1e-5 } }
           node { op_type: "Add" input: ["variance", "epsilon"] output: "sum" }
           node { op_type: "Sqrt" input: "sum" output: "deviation" }
           node { op_type: "Div" input: ["centred", "deviation"] output: "normal" }
           node { op_type: "Mul" input: ["normal", "w"] output: "scaled" }
           node { op_type: "Add" input: ["scaled", "b"] output: "y" })",
        more));
    model.Output(output);
    return TextOf(model.Import());
  };
  EXPECT_THAT(import("", "[-1]", "y"), HasSubstr("layer_norm"));
  EXPECT_THAT(import("", "[1, 2]", "y"), Not(HasSubstr("layer_norm")));
  EXPECT_THAT(import(R"(node { op_type: "Mul" input: ["centred", "y"] output: "z" })", "[-1]", "z"),
              Not(HasSubstr("layer_norm")));
}

TEST(ImportOnnx, SizesThatStayOpenAreAskedFor) {
  OnnxText model;
  model.Input("image", {0, 3, 0, 0});
  model.Nodes(R"(node { op_type: "Relu" input: "image" output: "y" })");
  model.Output("y");
  EXPECT_THAT(
      std::string(model.Import().status().message()),
      HasSubstr("input \"image\": axis 2 is as long as is decided when the model is run (\"n\"): say --shape=image:"));
  EXPECT_THAT(TextOf(model.Import({.shapes = {{"image", {1, 3, 5, 6}}}})), HasSubstr("shape { dim: [3, 5, 6] }"));
  EXPECT_THAT(TextOf(model.Import({.shapes = {{"picture", {1, 3, 5, 6}}}})),
              HasSubstr("there is no input \"picture\""));
}

TEST(ImportOnnx, OldAndNewVersionsOfOpsAreUnderstood) {
  for (const int64_t opset : {11, 13}) {
    OnnxText model(opset);
    model.Input("x", {0, 2, 3});
    model.Ints("axes", {1}, {1});
    model.Nodes(opset == 11 ? R"(
      node { op_type: "Softmax" input: "x" output: "s" }
      node { op_type: "Unsqueeze" input: "s" output: "y" attribute { name: "axes" ints: [1] type: INTS } })"
                            : R"(
      node { op_type: "Softmax" input: "x" output: "s" }
      node { op_type: "Unsqueeze" input: ["s", "axes"] output: "y" })");
    model.Output("y");
    const absl::StatusOr<ImportedModel> imported = model.Import();
    ASSERT_TRUE(imported.ok()) << imported.status();
    const auto y = Evaluate(*imported, imported->outputs[0].second, 1, {{"x", {0, 0, 0, 0, 0, 0}}});
    ASSERT_TRUE(y.ok()) << y.status();
    // Before version 13 all axes from 1 on are one.
    EXPECT_THAT(*y, Pointwise(DoubleNear(1e-6), std::vector<double>(6, opset == 11 ? 1. / 6 : 1. / 3)));
  }
  EXPECT_THAT(std::string(OnnxText(9).Import().status().message()),
              HasSubstr("opset 9: versions 11 to 21 are understood"));
  EXPECT_THAT(std::string(OnnxText(22).Import().status().message()),
              HasSubstr("opset 22: versions 11 to 21 are understood"));
}

// What each version has that the one before it had not, between the same two ops.
TEST(ImportOnnx, EachVersionsOwnFormsAreUnderstood) {
  const struct {
    int64_t opset;
    const char* node;  // from "a" to "b"
    double expected;   // of a = 3 and -1: the second
  } cases[] = {
      {12, R"(node { op_type: "Dropout" input: ["a", "ratio"] output: "b" })", -1},
      {14, R"(node { op_type: "BatchNormalization" input: ["a", "two", "zero", "zero", "two"] output: "b"
                     attribute { name: "epsilon" f: 2 type: FLOAT } attribute { name: "training_mode" i: 0 type: INT } })",
       -1},
      {14, R"(node { op_type: "HardSwish" input: "a" output: "b" })", -1. / 3},
      {15, R"(node { op_type: "Shape" input: "a" output: "batch"
                     attribute { name: "start" i: 0 type: INT } attribute { name: "end" i: 1 type: INT } }
              node { op_type: "Concat" input: ["batch", "rest"] output: "dims" attribute { name: "axis" i: 0 type: INT } }
              node { op_type: "Reshape" input: ["a", "dims"] output: "b" })",
       -1},
      {16, R"(node { op_type: "LeakyRelu" input: "a" output: "b" attribute { name: "alpha" f: 0.25 type: FLOAT } })",
       -0.25},
      {19, R"(node { op_type: "Pad" input: ["a", "ends", "", "axis"] output: "padded" }
              node { op_type: "Slice" input: ["padded", "first", "last", "axis"] output: "b" })",
       -1},
      {20, R"(node { op_type: "Gelu" input: "a" output: "b" })", -0.15865525393145707},
      {21, R"(node { op_type: "GroupNormalization" input: ["a", "two", "zero"] output: "b"
                     attribute { name: "num_groups" i: 1 type: INT } attribute { name: "epsilon" f: 0 type: FLOAT } })",
       -2},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(absl::StrCat("opset ", c.opset, ": ", c.node));
    OnnxText model(c.opset);
    model.Input("x", {0, 2, 1});
    model.Weight("ratio", {}, {0.5F});
    model.Weight("two", {2}, {2, 2});
    model.Weight("zero", {2}, {0, 0});
    model.Ints("rest", {2}, {2, 1});
    model.Ints("ends", {2}, {1, 2});
    model.Ints("axis", {1}, {1});
    model.Ints("first", {1}, {1});
    model.Ints("last", {1}, {3});
    model.Nodes(absl::StrCat(R"(node { op_type: "Neg" input: "x" output: "a" })", c.node,
                             R"(node { op_type: "Identity" input: "b" output: "y" })"));
    model.Output("y");
    const absl::StatusOr<ImportedModel> imported = model.Import();
    if (!imported.ok()) {
      ADD_FAILURE() << imported.status();
      continue;
    }
    const auto y = Evaluate(*imported, imported->outputs[0].second, 1, {{"x", {-3, 1}}});
    ASSERT_TRUE(y.ok()) << y.status();
    ASSERT_EQ(y->size(), 2u);
    EXPECT_NEAR((*y)[1], c.expected, 1e-6);
  }
}

}  // namespace
}  // namespace snug::core::onnx
