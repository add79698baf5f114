// What a product that computes on float32 reads: a parameter as it is, a copy of its own of everything else.
#include "engine/compile/kernels/widen.h"

#include <gtest/gtest.h>

#include "ops/graph_builder.h"
#include "proto/data_type.h"

namespace snug::core {
namespace {

// A parameter, rounded; an update of the parameter; a product that reads the rounded one.
class WidenTest : public testing::Test {
 protected:
  WidenTest() {
    x_ = graph_.AddInput("x", {DType::kBFloat16, {4, 4}});
    weight_ = Variable("weight", {DType::kFloat32, {4, 4}});
    gradient_ = Variable("gradient", {DType::kFloat32, {4, 4}});
    rate_ = Variable("rate", {DType::kFloat32, {}});
    gate_ = Variable("gate", {DType::kUint8, {}});
    rounded_ = OutputOf(
        Add({.name = "rounded", .op = "cast", .options = proto::CastTo(DType::kBFloat16), .inputs = {weight_}}));
  }

  ValueId Variable(std::string name, ValueType type) {
    return graph_.variable(graph_.AddVariable({.name = std::move(name), .type = std::move(type)})).value;
  }
  NodeId Add(NodeSpec spec) {
    const absl::StatusOr<NodeId> node = GraphBuilder(registry_, &graph_).Add(std::move(spec));
    EXPECT_TRUE(node.ok()) << node.status().message();
    return *node;
  }
  NodeId AddUpdate() {
    return Add({.name = "update", .op = "sgd_update", .inputs = {weight_, gradient_, rate_, gate_}});
  }
  NodeId AddProduct() {
    const NodeId product = Add({.name = "product", .op = "matmul", .inputs = {x_, rounded_}});
    graph_.outputs.push_back({"product", OutputOf(product)});
    return product;
  }
  ValueId OutputOf(NodeId id) const { return graph_.node(id).outputs[0]; }

  // As the stage of the compiler that chooses kernels does it, the product being all that wants float32.
  std::vector<NodeId> WidenAll() {
    std::vector<NodeId> casts;
    Readers readers(graph_);
    Widener widener(graph_, registry_, &readers);
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).op == "matmul") casts = widener.Widen(id);
      widener.Pass(id);
    }
    widener.RemoveUnreadCasts();
    return casts;
  }

  const OpRegistry& registry_ = OpRegistry::Builtin();
  Graph graph_;
  ValueId x_, weight_, gradient_, rate_, gate_, rounded_;
};

TEST_F(WidenTest, AParameterIsReadAsItIs) {
  const NodeId product = AddProduct();
  AddUpdate();
  EXPECT_EQ(WidenAll().size(), 2);  // of x and of the result
  EXPECT_EQ(graph_.node(product).inputs[1], weight_);
  EXPECT_TRUE(graph_.node(graph_.value(rounded_).producer).removed) << "nobody reads it";
  EXPECT_EQ(graph_.type(graph_.outputs[0].value).dtype, DType::kBFloat16);
}

TEST_F(WidenTest, AParameterThatWasUpdatedSinceIsReadAsItWas) {
  AddUpdate();
  const NodeId product = AddProduct();
  EXPECT_EQ(WidenAll().size(), 3);
  const ValueId read = graph_.node(product).inputs[1];
  ASSERT_TRUE(graph_.value(read).producer.valid()) << "the parameter has changed since it was rounded";
  EXPECT_EQ(graph_.node(graph_.value(read).producer).op, "cast");
  EXPECT_EQ(graph_.node(graph_.value(read).producer).inputs[0], rounded_);
}

// The gradient of a parameter is rounded only for whoever reads it in bfloat16.
TEST_F(WidenTest, AnUpdateReadsTheUnroundedGradient) {
  const NodeId product = Add({.name = "product", .op = "matmul", .inputs = {x_, rounded_}, .phase = Phase::kBackward});
  const NodeId update = Add({.name = "update",
                             .op = "sgd_update",
                             .inputs = {weight_, OutputOf(product), rate_, gate_},
                             .phase = Phase::kUpdate});
  WidenAll();
  EXPECT_EQ(graph_.node(update).inputs[1], OutputOf(product));
  EXPECT_EQ(graph_.type(OutputOf(product)).dtype, DType::kFloat32);
  for (const NodeId id : graph_.ProgramOrder()) {
    EXPECT_FALSE(graph_.node(id).op == "cast" && graph_.node(id).inputs[0] == OutputOf(product)) << "nobody reads it";
  }
}

// A node that reads and writes both types gets the parameter and leaves its gradient as it is, without a cast.
TEST_F(WidenTest, WhatTakesNoCastIsUnrounded) {
  const NodeId product = Add({.name = "product", .op = "matmul", .inputs = {x_, rounded_}, .phase = Phase::kBackward});
  const NodeId update = Add({.name = "update",
                             .op = "sgd_update",
                             .inputs = {weight_, OutputOf(product), rate_, gate_},
                             .phase = Phase::kUpdate});
  Readers readers(graph_);
  Widener widener(graph_, registry_, &readers);
  widener.Unround(product);
  widener.RemoveUnreadCasts();
  EXPECT_EQ(graph_.node(product).inputs[0], x_);
  EXPECT_EQ(graph_.node(product).inputs[1], weight_);
  EXPECT_EQ(graph_.node(update).inputs[1], OutputOf(product));
  EXPECT_EQ(graph_.type(OutputOf(product)).dtype, DType::kFloat32);
  for (const NodeId id : graph_.ProgramOrder()) EXPECT_NE(graph_.node(id).op, "cast");
}

// Who only fetches a gradient sees what the update reads, and the update reads what it would if nobody looked.
TEST_F(WidenTest, WhatIsFetchedOfAGradientIsWhatItsUpdateReads) {
  const NodeId product = Add({.name = "product", .op = "matmul", .inputs = {x_, rounded_}, .phase = Phase::kBackward});
  const ValueId made = OutputOf(product);
  const ValueId fetched =
      OutputOf(Add({.name = "wide", .op = "cast", .options = proto::CastTo(DType::kFloat32), .inputs = {made}}));
  graph_.outputs.push_back({"d(weight)", fetched});
  const NodeId update =
      Add({.name = "update", .op = "sgd_update", .inputs = {weight_, made, rate_, gate_}, .phase = Phase::kUpdate});
  Readers readers(graph_);
  Widener widener(graph_, registry_, &readers);
  widener.Unround(product);
  widener.RemoveUnreadCasts();
  EXPECT_EQ(graph_.type(made).dtype, DType::kFloat32);
  EXPECT_EQ(graph_.outputs[0].value, made);
  EXPECT_EQ(graph_.node(update).inputs[1], made);
  EXPECT_TRUE(graph_.node(graph_.value(fetched).producer).removed) << "nobody reads it";
}

// A cast that a node reads is another reader: its result must not change.
TEST_F(WidenTest, WhatIsComputedFromACastOfAGradientKeepsItRounded) {
  const NodeId product = Add({.name = "product", .op = "matmul", .inputs = {x_, rounded_}, .phase = Phase::kBackward});
  const ValueId made = OutputOf(product);
  const ValueId wide =
      OutputOf(Add({.name = "wide", .op = "cast", .options = proto::CastTo(DType::kFloat32), .inputs = {made}}));
  graph_.outputs.push_back({"norm", OutputOf(Add({.name = "norm", .op = "global_norm", .inputs = {wide}}))});
  Add({.name = "update", .op = "sgd_update", .inputs = {weight_, made, rate_, gate_}, .phase = Phase::kUpdate});
  Readers readers(graph_);
  Widener widener(graph_, registry_, &readers);
  widener.Unround(product);
  EXPECT_EQ(graph_.type(made).dtype, DType::kBFloat16);
}

// What anybody else reads is bfloat16, and so it stays.
TEST_F(WidenTest, WhatOthersReadStaysRounded) {
  const NodeId product = AddProduct();  // its result is an output
  Readers readers(graph_);
  Widener widener(graph_, registry_, &readers);
  widener.Unround(product);
  EXPECT_EQ(graph_.type(OutputOf(product)).dtype, DType::kBFloat16);
}

// The two products that read a layer's gradient share its cast; one further on does not.
TEST_F(WidenTest, NeighboursShareACast) {
  std::vector<NodeId> products;
  for (const char* const name : {"first", "second", "third"}) {
    products.push_back(Add({.name = name, .op = "matmul", .inputs = {x_, rounded_}}));
    graph_.outputs.push_back({name, OutputOf(products.back())});
    if (products.size() == 2) Add({.name = "between", .op = "relu", .inputs = {OutputOf(products[0])}});
  }
  WidenAll();
  EXPECT_EQ(graph_.node(products[0]).inputs[0], graph_.node(products[1]).inputs[0]);
  EXPECT_NE(graph_.node(products[1]).inputs[0], graph_.node(products[2]).inputs[0]);
}

}  // namespace
}  // namespace snug::core
