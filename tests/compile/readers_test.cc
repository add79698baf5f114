#include "engine/compile/kernels/readers.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

namespace snug::core {
namespace {

const ValueType kType{.dtype = DType::kFloat32, .shape = Shape({4})};

// Nodes that read up to three of the values before them, the last value and one more are outputs.
Graph RandomGraph(std::mt19937& random, int nodes) {
  Graph graph;
  std::vector<ValueId> values = {graph.AddInput("x", kType)};
  for (int i = 0; i < nodes; ++i) {
    std::vector<ValueId> inputs;
    for (size_t n = random() % 4; n > 0; --n) inputs.push_back(values[random() % values.size()]);
    const NodeId node = graph.AddNode({.name = "n", .op = "add_n", .inputs = inputs, .output_types = {kType}});
    values.push_back(graph.node(node).outputs[0]);
  }
  graph.outputs = {{"last", values.back()}, {"other", values[random() % values.size()]}};
  graph.objectives = {values.back()};
  return graph;
}

std::string Reads(const Graph& graph) {
  std::string text;
  for (const NodeId id : graph.ProgramOrder()) {
    absl::StrAppend(&text, id.index, ":");
    for (const ValueId input : graph.node(id).inputs) absl::StrAppend(&text, " ", input.index);
    absl::StrAppend(&text, "\n");
  }
  for (const Output& output : graph.outputs) absl::StrAppend(&text, output.name, " ", output.value.index, "\n");
  for (const ValueId objective : graph.objectives) absl::StrAppend(&text, "objective ", objective.index, "\n");
  return text;
}

// Where in program order a value is made.
std::ptrdiff_t Position(const Graph& graph, ValueId value) {
  const std::vector<NodeId> order = graph.ProgramOrder();
  const NodeId producer = graph.value(value).producer;
  return producer.valid() ? std::find(order.begin(), order.end(), producer) - order.begin() : -1;
}

TEST(Readers, ReplaceUsesAsTheGraphDoesThroughAnyNumberOfChanges) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Graph expected = RandomGraph(random, 30);
    Graph found = expected;
    Readers readers(found);
    for (int change = 0; change < 40; ++change) {
      const auto any = [&] {
        return ValueId{static_cast<int32_t>(random() % static_cast<uint32_t>(found.value_capacity()))};
      };
      ValueId from = any(), to = any();
      if (from == to) continue;
      if (Position(found, to) > Position(found, from)) std::swap(from, to);  // values are made before they are read
      if (change % 4 == 3) {  // a node that is put in, and read by all that read what it reads
        for (Graph* graph : {&expected, &found}) {
          const NodeId node = graph->AddNode({.name = "in", .op = "add_n", .inputs = {from}, .output_types = {kType}});
          const NodeId producer = graph->value(from).producer;
          const NodeId behind = producer.valid() ? graph->node(producer).next : graph->first_node();
          if (behind != node) graph->MoveBefore(node, behind);
        }
        const ValueId made{static_cast<int32_t>(found.value_capacity()) - 1};
        readers.Add(from, found.value(made).producer);
        readers.ReadInstead(found, from, made);
        expected.ReplaceUses(from, made);
        expected.node(expected.value(made).producer).inputs[0] = from;
      } else {
        readers.ReplaceUses(found, from, to);
        expected.ReplaceUses(from, to);
      }
      ASSERT_EQ(Reads(found), Reads(expected)) << "round " << round << ", change " << change;
    }
  }
}

TEST(Readers, NamesEveryReader) {
  std::mt19937 random(8);
  Graph graph = RandomGraph(random, 40);
  Readers readers(graph);
  const std::vector<std::vector<NodeId>> before = ReadersOf(graph);
  const ValueId from{0};
  readers.ReplaceUses(graph, from, ValueId{2});
  const std::vector<std::vector<NodeId>> after = ReadersOf(graph);
  for (size_t v = 0; v < after.size(); ++v) {
    const std::vector<NodeId> known = readers.Of(ValueId{static_cast<int32_t>(v)});
    for (const NodeId reader : after[v]) {
      EXPECT_NE(std::find(known.begin(), known.end(), reader), known.end()) << "value " << v;
    }
  }
  EXPECT_FALSE(before[static_cast<size_t>(from.index)].empty());
  EXPECT_TRUE(after[static_cast<size_t>(from.index)].empty());
}

}  // namespace
}  // namespace snug::core
