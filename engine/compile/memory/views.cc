#include "engine/compile/memory/views.h"

#include <algorithm>
#include <optional>

#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Returns the offset of each output in input 0, or of each input in output 0. Empty where one of them is no range, or
// begins where values may not.
std::vector<int64_t> Offsets(RangeFn range, const NodeTypes& types, int ports, int64_t alignment) {
  std::vector<int64_t> offsets;
  for (int i = 0; i < ports; ++i) {
    const std::optional<int64_t> offset = range(types, i);
    if (!offset.has_value() || *offset % alignment != 0) return {};
    offsets.push_back(*offset);
  }
  return offsets;
}

std::vector<int64_t> OffsetsInInput(const Graph& graph, const Node& node, const OpDef& op, int64_t alignment) {
  if (op.output_in_input == nullptr) return {};
  const NodeTypes types = TypesOf(graph, node);
  return Offsets(op.output_in_input, types, types.num_outputs(), alignment);
}

std::vector<int64_t> OffsetsInOutput(const Graph& graph, const Node& node, const OpDef& op, int64_t alignment) {
  if (op.input_in_output == nullptr) return {};
  const NodeTypes types = TypesOf(graph, node);
  return Offsets(op.input_in_output, types, types.num_inputs(), alignment);
}

}  // namespace

std::vector<NodeId> Views::Optional(const Graph& graph, const OpRegistry& registry, int64_t alignment) {
  std::vector<NodeId> optional;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    const bool can_be =
        !OffsetsInInput(graph, node, op, alignment).empty() || !OffsetsInOutput(graph, node, op, alignment).empty();
    if (can_be) optional.push_back(id);
  }
  return optional;
}

Views::Views(const Graph& graph, const OpRegistry& registry, int64_t alignment, const std::vector<char>& copied)
    : graph_(graph), alignment_(alignment), is_view_(graph.node_capacity(), 0), within_(graph.value_capacity()) {
  const std::vector<NodeId> order = graph.ProgramOrder();
  const auto index = [](NodeId id) { return static_cast<size_t>(id.index); };
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    if (op.traits.view) {
      for (const ValueId output : node.outputs) within(output) = {node.inputs[0], 0};
      is_view_[index(id)] = 1;
    } else if (copied[index(id)] == 0) {
      is_view_[index(id)] = LieInInput(node, op) ? 1 : 0;
    }
  }
  // Goes from the last node to the first: a value that two nodes join then lies in the larger result.
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph.node(*id);
    if (copied[index(*id)] == 0 && LieInOutput(node, registry.Get(node.op))) is_view_[index(*id)] = 1;
  }
}

ValueId Views::RootOf(ValueId value) const {
  while (within(value).in.valid()) value = within(value).in;
  return value;
}

int64_t Views::OffsetOf(ValueId value) const {
  int64_t offset = 0;
  for (; within(value).in.valid(); value = within(value).in) offset += within(value).offset;
  return offset;
}

// Parts of Variables are copied, because the Variable may change before the part is read.
bool Views::LieInInput(const Node& node, const OpDef& op) {
  const std::vector<int64_t> offsets = OffsetsInInput(graph_, node, op, alignment_);
  if (offsets.empty() || graph_.value(RootOf(node.inputs[0])).variable.valid()) return false;
  for (size_t i = 0; i < offsets.size(); ++i) within(node.outputs[i]) = {node.inputs[0], offsets[i]};
  return true;
}

// This needs all inputs to be written by kernels, to be there once, and to lie in no other value already.
bool Views::LieInOutput(const Node& node, const OpDef& op) {
  const std::vector<int64_t> offsets = OffsetsInOutput(graph_, node, op, alignment_);
  for (size_t i = 0; i < offsets.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (within(input).in.valid() || !graph_.value(input).producer.valid()) return false;
    if (std::count(node.inputs.begin(), node.inputs.end(), input) > 1) return false;
  }
  for (size_t i = 0; i < offsets.size(); ++i) within(node.inputs[i]) = {node.outputs[0], offsets[i]};
  return !offsets.empty();
}

}  // namespace snug::core
