#include "ops/graph_builder.h"

#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "tests/testing/fake_op.h"

namespace snug::core {
namespace {

using test::FakeOp;

class GraphBuilderTest : public ::testing::Test {
 protected:
  GraphBuilderTest() {
    std::vector<OpDef> ops = {
        FakeOp("unary", {{"x"}}, {{"y"}}),
        FakeOp("binary", {{"x"}, {"w"}}, {{"y"}}),
        FakeOp("optional", {{"x"}, {"b", PortType::kFloating, /*optional=*/true}}, {{"y"}}),
        FakeOp("many", {{"x"}, {.name = "more", .variadic = true}}, {{"y"}}),
        FakeOp("typed",
               {{"any", PortType::kAny},
                {"stat", PortType::kFloat32},
                {"label", PortType::kInteger},
                {"mask", PortType::kBytes}},
               {{"y", PortType::kAny}}),
        FakeOp("huge", {{"x"}}, {{"y"}}),
    };
    ops.back().infer = [](InferContext& c) {
      c.SetOutput(0, c.input(0).dtype, {int64_t{1} << 40, int64_t{1} << 40});
      return absl::OkStatus();
    };
    SNUG_CHECK_OK(registry_.AddAll("fakes", std::move(ops)));
  }

  ValueId Value(DType dtype, const Shape& shape = {2}) { return graph_.AddInput("v", {dtype, shape}); }
  // Returns the error of adding a node, or "" if it works.
  std::string Error(const std::string& op, std::vector<ValueId> inputs) {
    const absl::StatusOr<NodeId> node = builder_.Add({.name = op, .op = op, .inputs = std::move(inputs)});
    return std::string(node.status().message());
  }

  OpRegistry registry_;
  Graph graph_;
  GraphBuilder builder_{registry_, &graph_};
  ValueId float32_ = Value(DType::kFloat32);
};

TEST_F(GraphBuilderTest, AddsATypedNode) {
  const ValueId x = Value(DType::kBFloat16, {2, 5});
  const absl::StatusOr<NodeId> node = builder_.Add({.name = "n", .op = "unary", .inputs = {x}});
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(graph_.type(graph_.node(*node).outputs[0]).ToString(), "bfloat16[2, 5]");
}

TEST_F(GraphBuilderTest, NamesAnUnknownOp) {
  const absl::Status status = builder_.Add({.name = "n", .op = "unari"}).status();
  EXPECT_EQ(status, absl::NotFoundError("unknown op \"unari\""));
}

TEST_F(GraphBuilderTest, AnErrorLeavesTheGraphAsItWas) {
  EXPECT_NE(Error("unary", {}), "");
  EXPECT_EQ(graph_.num_nodes(), 0);
}

TEST_F(GraphBuilderTest, CountsInputs) {
  EXPECT_EQ(Error("unary", {}), "expected 1 input (x), found 0");
  EXPECT_EQ(Error("binary", {float32_}), "expected 2 inputs (x, w), found 1");
  EXPECT_EQ(Error("optional", {float32_, float32_, float32_}), "expected 1 to 2 inputs (x, b?), found 3");
  EXPECT_EQ(Error("many", {}), "expected at least 1 inputs (x, more...), found 0");
}

TEST_F(GraphBuilderTest, TakesOptionalAndVariadicInputs) {
  EXPECT_EQ(Error("optional", {float32_}), "");
  EXPECT_EQ(Error("optional", {float32_, ValueId()}), "");
  EXPECT_EQ(Error("many", {float32_}), "");
  EXPECT_EQ(Error("many", {float32_, float32_, float32_, float32_}), "");
}

TEST_F(GraphBuilderTest, MissesARequiredInput) {
  EXPECT_EQ(Error("binary", {float32_, ValueId()}), "input 1 \"w\": is missing");
}

TEST_F(GraphBuilderTest, FloatingPortsShareOneDType) {
  const ValueId half = Value(DType::kBFloat16, {3, 4});
  EXPECT_EQ(Error("binary", {float32_, half}),
            "input 1 \"w\": expected float32 like input 0, found bfloat16; a cast layer converts");
  EXPECT_EQ(Error("many", {float32_, float32_, half}),
            "input 2 \"more\": expected float32 like input 0, found bfloat16; a cast layer converts");
}

TEST_F(GraphBuilderTest, ChecksElementTypes) {
  const ValueId int32 = Value(DType::kInt32);
  const ValueId int64 = Value(DType::kInt64);
  const ValueId bytes = Value(DType::kUint8);
  const ValueId float64 = Value(DType::kFloat64);
  const ValueId half = Value(DType::kBFloat16, {3, 4});
  EXPECT_EQ(Error("unary", {int32}), "input 0 \"x\": expected a floating-point value, found int32[2]");
  EXPECT_EQ(Error("typed", {half, float32_, int32, bytes}), "");
  EXPECT_EQ(Error("typed", {bytes, float64, int64, bytes}), "");
  EXPECT_EQ(Error("typed", {half, half, int32, bytes}),
            "input 1 \"stat\": expected float32 (float64 in a float64 network), found bfloat16[3, 4]");
  EXPECT_EQ(Error("typed", {half, float32_, bytes, bytes}),
            "input 2 \"label\": expected int32 or int64, found uint8[2]");
  EXPECT_EQ(Error("typed", {half, float32_, int32, int32}), "input 3 \"mask\": expected uint8, found int32[2]");
}

TEST_F(GraphBuilderTest, BoundsInferredShapes) {
  EXPECT_EQ(Error("huge", {float32_}),
            "shape [1099511627776, 1099511627776] has too many elements: at most 2^46 are allowed");
}

TEST_F(GraphBuilderTest, DefaultCostCountsOutputsAndBytes) {
  const ValueId x = Value(DType::kFloat32, {2, 5});
  const absl::StatusOr<NodeId> node = builder_.Add({.name = "n", .op = "optional", .inputs = {x, ValueId()}});
  ASSERT_TRUE(node.ok());
  const NodeTypes types = TypesOf(graph_, graph_.node(*node));
  EXPECT_FALSE(types.has_input(1));
  const Cost cost = CostOf(registry_.Get("optional"), types);
  EXPECT_EQ(cost.flops, 10);
  EXPECT_EQ(cost.bytes, 2 * 10 * 4);
  EXPECT_EQ(cost.multiply_adds, 0);
}

TEST(NodeError, SaysWhereAndWhat) {
  const SourceLoc loc = {.file = std::make_shared<const std::string>("m.pbtxt"), .line = 4, .column = 9};
  EXPECT_EQ(NodeError(loc, "fc1", "dense", absl::InvalidArgumentError("why")),
            absl::InvalidArgumentError("m.pbtxt:4:9: layer \"fc1\" (dense): why"));
  EXPECT_EQ(NodeError({}, "fc1", "dense", absl::InvalidArgumentError("why")).message(), "layer \"fc1\" (dense): why");
}

}  // namespace
}  // namespace snug::core
