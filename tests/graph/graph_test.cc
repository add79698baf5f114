#include "engine/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace snug::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const ValueType kType = {DType::kFloat32, {2}};

NodeId Add(Graph& graph, std::string name, std::vector<ValueId> inputs = {}, size_t outputs = 1) {
  return graph.AddNode({.name = std::move(name),
                        .op = "op",
                        .inputs = std::move(inputs),
                        .output_types = std::vector<ValueType>(outputs, kType)});
}
ValueId OutputOf(const Graph& graph, NodeId id) { return graph.node(id).outputs[0]; }

TEST(Graph, ValuesKnowWhereTheyComeFrom) {
  Graph graph;
  const ValueId x = graph.AddInput("x", kType, 10);
  const VariableId w = graph.AddVariable({.name = "w", .type = kType});
  const NodeId split = Add(graph, "split", {x, graph.variable(w).value}, 2);
  EXPECT_TRUE(graph.value(x).is_input);
  EXPECT_EQ(graph.value(x).max_value, 10);
  EXPECT_EQ(graph.value(graph.variable(w).value).variable, w);
  const ValueId second = graph.node(split).outputs[1];
  EXPECT_EQ(graph.value(second).producer, split);
  EXPECT_EQ(graph.value(second).output_index, 1);
  EXPECT_EQ(graph.value(second).name, "split:1");
  EXPECT_THAT(graph.inputs(), ElementsAre(x));
}

TEST(Graph, FindsByName) {
  Graph graph;
  const ValueId x = graph.AddInput("x", kType);
  const VariableId w = graph.AddVariable({.name = "w", .type = kType});
  const NodeId node = Add(graph, "n", {x}, 2);
  EXPECT_EQ(graph.FindValue("x"), x);
  EXPECT_EQ(graph.FindValue("n:1"), graph.node(node).outputs[1]);
  EXPECT_EQ(graph.FindVariable("w"), w);
  EXPECT_EQ(graph.FindValue("w"), graph.variable(w).value);
  EXPECT_FALSE(graph.FindValue("y").valid());
  EXPECT_FALSE(graph.FindVariable("x").valid());
}

TEST(Graph, MakesNamesUnique) {
  Graph graph;
  graph.AddInput("x", kType);
  EXPECT_EQ(graph.node(Add(graph, "n")).name, "n");
  EXPECT_EQ(graph.node(Add(graph, "n#2")).name, "n#2");  // taken before anyone needs it
  EXPECT_EQ(graph.node(Add(graph, "n")).name, "n#3");
  EXPECT_EQ(graph.node(Add(graph, "n")).name, "n#4");
  EXPECT_EQ(graph.node(Add(graph, "x")).name, "x#2");
  EXPECT_EQ(graph.node(Add(graph, "n#3")).name, "n#5") << "a copy of a copy";
  EXPECT_EQ(graph.node(Add(graph, "n#5")).name, "n#6");
  EXPECT_EQ(graph.node(Add(graph, "m#2")).name, "m#2");
  EXPECT_EQ(graph.node(Add(graph, "m#2")).name, "m#2#2") << "there is no m";
  EXPECT_EQ(graph.node(Add(graph, "#2")).name, "#2");
  EXPECT_EQ(graph.node(Add(graph, "12")).name, "12");
  EXPECT_EQ(graph.node(Add(graph, "12")).name, "12#2");
}

TEST(Graph, ANodeMayHaveTheNameOfOneThatItReplaces) {
  Graph graph;
  const NodeId old = Add(graph, "n", {}, 2);
  const NodeId replacement = Add(graph, "n", {}, 3);
  graph.SwapNames(old, replacement);
  EXPECT_EQ(graph.node(replacement).name, "n");
  EXPECT_EQ(graph.node(old).name, "n#2");
  for (const auto& [name, node, output] :
       {std::tuple("n", replacement, 0u), std::tuple("n:1", replacement, 1u), std::tuple("n:2", replacement, 2u),
        std::tuple("n#2", old, 0u), std::tuple("n#2:1", old, 1u)}) {
    const ValueId value = graph.node(node).outputs[output];
    EXPECT_EQ(graph.value(value).name, name);
    EXPECT_EQ(graph.FindValue(name), value);
  }
  EXPECT_FALSE(graph.FindValue("n#2:2").valid());
}

TEST(Graph, AddsAtTheInsertionPoint) {
  Graph graph;
  const NodeId a = Add(graph, "a");
  const NodeId b = Add(graph, "b");
  graph.SetInsertionPoint(b);
  const NodeId c = Add(graph, "c");
  const NodeId d = Add(graph, "d");
  EXPECT_THAT(graph.ProgramOrder(), ElementsAre(a, c, d, b));
  graph.SetInsertionPoint(a);
  const NodeId e = Add(graph, "e");
  graph.SetInsertionPoint(NodeId());
  const NodeId f = Add(graph, "f");
  EXPECT_THAT(graph.ProgramOrder(), ElementsAre(e, a, c, d, b, f));
  EXPECT_EQ(graph.first_node(), e);
  EXPECT_EQ(graph.last_node(), f);
}

TEST(Graph, RemovesNodesAndKeepsIds) {
  Graph graph;
  const NodeId a = Add(graph, "a");
  const NodeId b = Add(graph, "b");
  const NodeId c = Add(graph, "c");
  graph.SetInsertionPoint(b);
  graph.RemoveNode(b);
  EXPECT_THAT(graph.ProgramOrder(), ElementsAre(a, c));
  EXPECT_TRUE(graph.node(b).removed);
  EXPECT_EQ(graph.num_nodes(), 2);
  EXPECT_EQ(graph.node_capacity(), 3);
  EXPECT_EQ(graph.insertion_point(), c);  // where b stood
  graph.RemoveNode(a);
  graph.RemoveNode(c);
  EXPECT_THAT(graph.ProgramOrder(), IsEmpty());
  EXPECT_FALSE(graph.first_node().valid() || graph.last_node().valid());
}

TEST(Graph, MovesNodes) {
  Graph graph;
  const NodeId a = Add(graph, "a");
  const NodeId b = Add(graph, "b");
  const NodeId c = Add(graph, "c");
  graph.MoveBefore(c, a);
  EXPECT_THAT(graph.ProgramOrder(), ElementsAre(c, a, b));
  graph.MoveBefore(c, NodeId());
  EXPECT_THAT(graph.ProgramOrder(), ElementsAre(a, b, c));
  graph.MoveBefore(b, b);
  graph.MoveBefore(a, b);  // where it is already
  EXPECT_THAT(graph.ProgramOrder(), ElementsAre(a, b, c));
}

TEST(Graph, ReplacesUsesEverywhere) {
  Graph graph;
  const ValueId x = graph.AddInput("x", kType);
  const ValueId a = OutputOf(graph, Add(graph, "a", {x}));
  const ValueId b = OutputOf(graph, Add(graph, "b", {x}));
  const NodeId reader = Add(graph, "reader", {a, ValueId(), a});
  graph.outputs = {{"out", a}};
  graph.objectives = {a};
  graph.ReplaceUses(a, b);
  EXPECT_THAT(graph.node(reader).inputs, ElementsAre(b, ValueId(), b));
  EXPECT_EQ(graph.outputs[0].value, b);
  EXPECT_EQ(graph.outputs[0].name, "out");
  EXPECT_THAT(graph.objectives, ElementsAre(b));
}

TEST(Graph, ReplacesManyAndFollowsChains) {
  Graph graph;
  const ValueId x = graph.AddInput("x", kType);
  const ValueId a = OutputOf(graph, Add(graph, "a", {x}));
  const ValueId b = OutputOf(graph, Add(graph, "b", {a}));
  const NodeId reader = Add(graph, "reader", {b, x});
  graph.ReplaceUses({{b, a}, {a, x}});
  EXPECT_THAT(graph.node(reader).inputs, ElementsAre(x, x));
}

TEST(Graph, ListsReadersInProgramOrder) {
  Graph graph;
  const ValueId x = graph.AddInput("x", kType);
  const NodeId a = Add(graph, "a", {x, x});
  const NodeId b = Add(graph, "b", {x, ValueId()});
  graph.MoveBefore(b, a);
  const auto readers = ReadersOf(graph);
  EXPECT_THAT(readers[static_cast<size_t>(x.index)], ElementsAre(b, a, a));
  EXPECT_THAT(readers[static_cast<size_t>(OutputOf(graph, a).index)], IsEmpty());
}

TEST(GraphDeathTest, AVariableNameIsTakenOnce) {
  Graph graph;
  graph.AddVariable({.name = "w", .type = kType});
  EXPECT_DEATH(graph.AddVariable({.name = "w", .type = kType}), "w");
}

}  // namespace
}  // namespace snug::core
