#include "engine/compile/kernels/conversions.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "ops/graph_builder.h"
#include "proto/data_type.h"

namespace snug::core {
namespace {

constexpr char kCast[] = "cast";

ValueId Insert(Graph& graph, NodeSpec spec, NodeId before, NodeId beside) {
  if (beside.valid()) {
    spec.loc = graph.node(beside).loc;
    spec.phase = graph.node(beside).phase;
  }
  const NodeId previous = graph.insertion_point();
  graph.SetInsertionPoint(before);
  const NodeId node = graph.AddNode(std::move(spec));
  graph.SetInsertionPoint(previous);
  return graph.node(node).outputs[0];
}

}  // namespace

ValueId InsertReorder(Graph& graph, ValueId value, const Layout& layout, NodeId before, NodeId beside) {
  ValueType type = graph.type(value);
  type.layout = layout;
  return Insert(graph,
                {.name = absl::StrCat(graph.value(value).name, "/", layout.plain() ? "plain" : layout.ToString()),
                 .op = "reorder",
                 .inputs = {value},
                 .output_types = {std::move(type)}},
                before, beside);
}

ValueId InsertCast(Graph& graph, ValueId value, DType dtype, NodeId before, NodeId beside) {
  ValueType type = graph.type(value);
  type.dtype = dtype;
  return Insert(graph,
                {.name = absl::StrCat(graph.value(value).name, "/", Name(dtype)),
                 .op = kCast,
                 .options = proto::CastTo(dtype),
                 .inputs = {value},
                 .output_types = {std::move(type)}},
                before, beside);
}

bool IsCast(const Node& node) { return node.op == kCast; }

namespace {

bool MayRead(const Graph& graph, const OpRegistry& registry, NodeId node, size_t i, ValueType type) {
  if (!graph.node(node).outputs.empty()) return false;
  NodeTypes types = TypesOf(graph, graph.node(node));
  types.inputs[i] = std::move(type);
  return InferTypes(registry.Get(graph.node(node).op), &types).ok();
}

}  // namespace

bool MayReadInstead(const Graph& graph, const OpRegistry& registry, NodeId node, size_t i, ValueId other) {
  return MayRead(graph, registry, node, i, graph.type(other));
}

bool MayReadInFloat32(const Graph& graph, const OpRegistry& registry, NodeId node, size_t i) {
  ValueType type = graph.type(graph.node(node).inputs[i]);
  type.dtype = DType::kFloat32;
  return MayRead(graph, registry, node, i, std::move(type));
}

void ReadInstead(Graph& graph, ValueId value, ValueId other) {
  graph.ReplaceUses(value, other);
  graph.node(graph.value(other).producer).inputs[0] = value;
}

}  // namespace snug::core
