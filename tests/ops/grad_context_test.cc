#include "ops/grad_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"
#include "tests/testing/fake_op.h"

namespace snug::core {
namespace {

using ::testing::ElementsAre;

class GradContextTest : public ::testing::Test {
 protected:
  GradContextTest() {
    // The op is f(x, w?) -> y; its layer-style gradient takes x, w, y, dy and gives dx, dw.
    OpDef layer_grad =
        test::FakeOp("f_grad", {{"x"}, {"w", PortType::kFloating, /*optional=*/true}, {"y"}, {"dy"}}, {{"dx"}, {"dw"}});
    layer_grad.infer = [](InferContext& c) {
      c.SetOutput(0, c.input(0));
      c.SetOutput(1, c.input(c.has_input(1) ? 1 : 0));
      return absl::OkStatus();
    };
    OpDef picky = test::FakeOp("picky", {{"x"}}, {{"y"}});
    picky.infer = [](InferContext& c) { return c.InputError(0, "never right"); };
    SNUG_CHECK_OK(registry_.AddAll("fakes", {test::FakeOp("f", {{"x"}, {"w", PortType::kFloating, true}}, {{"y"}}),
                                             test::FakeOp("scale", {{"x"}}, {{"y"}}), layer_grad, picky}));
    x_ = graph_.AddInput("x", {DType::kFloat32, {2, 3}});
    w_ = graph_.AddInput("w", {DType::kFloat32, {3}});
    dy_ = graph_.AddInput("dy", {DType::kFloat32, {2, 3}});
  }

  NodeId AddForward(std::vector<ValueId> inputs) {
    const SourceLoc loc = {.file = std::make_shared<const std::string>("m.pbtxt"), .line = 7};
    const absl::StatusOr<NodeId> node =
        builder_.Add({.name = "n", .op = "f", .inputs = std::move(inputs), .loc = loc, .random_id = 42});
    SNUG_CHECK_OK(node.status());
    return *node;
  }

  OpRegistry registry_;
  Graph graph_;
  GraphBuilder builder_{registry_, &graph_};
  ValueId x_, w_, dy_;
};

using GradContextDeathTest = GradContextTest;  // GoogleTest runs those first, before there are threads

TEST_F(GradContextTest, GradientNodesBelongToTheForwardNode) {
  const NodeId forward = AddForward({x_, w_});
  GradContext g(builder_, forward, {dy_}, {true, true});
  g.SetInputGrad(0, g.Op("scale", {g.output_grad(0)}));
  ASSERT_TRUE(g.status().ok());
  const Node& node = graph_.node(graph_.last_node());
  EXPECT_EQ(node.name, "n/scale");
  EXPECT_EQ(node.phase, Phase::kBackward);
  EXPECT_EQ(node.forward, forward);
  EXPECT_EQ(node.random_id, 42);
  EXPECT_EQ(node.loc.line, 7);
  EXPECT_THAT(g.input_grads(), ElementsAre(node.outputs[0], ValueId()));
}

TEST_F(GradContextTest, ASuffixNamesTheNode) {
  GradContext g(builder_, AddForward({x_, w_}), {dy_}, {true, true});
  const ValueId value = g.Op("scale", {dy_}, {}, "grad_input");
  EXPECT_EQ(graph_.value(value).name, "n/grad_input");
}

TEST_F(GradContextTest, WantsOnlyPresentAndAskedFor) {
  GradContext g(builder_, AddForward({x_, ValueId()}), {dy_}, {false, true});
  EXPECT_FALSE(g.wants(0));
  EXPECT_FALSE(g.wants(1));  // the input is absent
  EXPECT_FALSE(g.has_input(1));
  EXPECT_TRUE(g.has_output_grad(0));
}

TEST_F(GradContextTest, LayerStyleIsOneNodeOfEverything) {
  const NodeId forward = AddForward({x_, w_});
  GradContext g(builder_, forward, {dy_}, {true, true});
  ASSERT_TRUE(g.LayerStyle("f_grad").ok());
  EXPECT_EQ(graph_.num_nodes(), 2);
  const Node& node = graph_.node(graph_.last_node());
  EXPECT_THAT(node.inputs, ElementsAre(x_, w_, graph_.node(forward).outputs[0], dy_));
  EXPECT_EQ(node.forward, forward);
  EXPECT_EQ(g.input_grads(), node.outputs);
}

TEST_F(GradContextTest, LayerStyleKeepsAbsentInputsAbsentAndUnwantedGradientsUnset) {
  GradContext g(builder_, AddForward({x_, ValueId()}), {dy_}, {true, false});
  ASSERT_TRUE(g.LayerStyle("f_grad").ok());
  const Node& node = graph_.node(graph_.last_node());
  EXPECT_FALSE(node.inputs[1].valid());
  EXPECT_THAT(g.input_grads(), ElementsAre(node.outputs[0], ValueId()));
}

TEST_F(GradContextTest, TheFirstErrorSticks) {
  GradContext g(builder_, AddForward({x_, w_}), {dy_}, {true, true});
  EXPECT_FALSE(g.Op("picky", {dy_}).valid());
  g.SetInputGrad(0, g.Op("scale", {dy_}));
  g.Fail(absl::InternalError("later"));
  EXPECT_EQ(g.status().message(), "input 0 \"x\" [2, 3]: never right");
  EXPECT_EQ(graph_.num_nodes(), 1);  // nothing was added after it
  EXPECT_FALSE(g.input_grads()[0].valid());
}

TEST_F(GradContextDeathTest, AGradientHasItsInputsShape) {
  GradContext g(builder_, AddForward({x_, w_}), {dy_}, {true, true});
  EXPECT_DEATH(g.SetInputGrad(1, dy_), "gradient of input 1 of f \"n\": expected shape \\[3\\], found \\[2, 3\\]");
  EXPECT_DEATH(g.SetInputGrad(1, ValueId()), "found nothing");
}

}  // namespace
}  // namespace snug::core
