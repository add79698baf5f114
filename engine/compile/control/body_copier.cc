#include "engine/compile/control/body_copier.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace snug::core {

NodeSpec CopyOf(const Graph& from, const Node& node, const std::vector<ValueId>& copies) {
  NodeSpec spec{.name = node.name,
                .op = node.op,
                .options = node.options,
                .loc = node.loc,
                .phase = node.phase,
                .random_id = node.random_id,
                .subgraphs = node.subgraphs};
  for (const ValueId input : node.inputs) {
    spec.inputs.push_back(input.valid() ? copies[static_cast<size_t>(input.index)] : ValueId());
  }
  for (const ValueId output : node.outputs) spec.output_types.push_back(from.type(output));
  return spec;
}

NodeId AddCopy(const Graph& from, const Node& node, NodeSpec spec, Graph& to, std::vector<ValueId>& copies) {
  if (copies.size() < from.value_capacity()) copies.resize(from.value_capacity());
  const NodeId added = to.AddNode(std::move(spec));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    copies[static_cast<size_t>(node.outputs[i].index)] = to.node(added).outputs[i];
  }
  return added;
}

// A value belongs to the node that it was made with, which goes.
ValueId AddOutput(Graph& graph, NodeId id, std::string name, ValueType type) {
  const NodeId maker =
      graph.AddNode({.name = std::move(name), .op = graph.node(id).op, .output_types = {std::move(type)}});
  const ValueId output = graph.node(maker).outputs[0];
  graph.node(maker).outputs.clear();
  graph.RemoveNode(maker);
  graph.value(output).producer = id;
  graph.value(output).output_index = static_cast<int>(graph.node(id).outputs.size());
  graph.node(id).outputs.push_back(output);
  return output;
}

std::vector<bool> BodyCopier::NeededFor(const std::vector<int>& outputs) const {
  std::vector<bool> needed(body_.node_capacity(), false);
  const auto need = [&](ValueId value) {
    const NodeId producer = value.valid() ? body_.value(value).producer : NodeId();
    if (producer.valid()) needed[static_cast<size_t>(producer.index)] = true;
  };
  for (const int output : outputs) need(body_.outputs[static_cast<size_t>(output)].value);
  for (NodeId id = body_.last_node(); id.valid(); id = body_.node(id).previous) {
    if (!needed[static_cast<size_t>(id.index)]) continue;
    for (const ValueId input : body_.node(id).inputs) need(input);
  }
  return needed;
}

bool BodyCopier::Depends(int output, int input) const {
  const ValueId of_input = body_.inputs()[static_cast<size_t>(input)];
  if (body_.outputs[static_cast<size_t>(output)].value == of_input) return true;
  const std::vector<bool> needed = NeededFor({output});
  for (NodeId id = body_.first_node(); id.valid(); id = body_.node(id).next) {
    const std::vector<ValueId>& inputs = body_.node(id).inputs;
    if (needed[static_cast<size_t>(id.index)] && std::find(inputs.begin(), inputs.end(), of_input) != inputs.end()) {
      return true;
    }
  }
  return false;
}

std::vector<ValueId> BodyCopier::Copy(const std::vector<ValueId>& feeds, const std::vector<int>& outputs,
                                      const std::string& name, uint64_t shift) {
  std::vector<ValueId> copies(body_.value_capacity());  // indexed by value of the body
  for (size_t i = 0; i < feeds.size(); ++i) copies[static_cast<size_t>(body_.inputs()[i].index)] = feeds[i];
  const std::vector<bool> needed = NeededFor(outputs);
  for (NodeId id = body_.first_node(); id.valid(); id = body_.node(id).next) {
    if (!needed[static_cast<size_t>(id.index)]) continue;
    const Node& node = body_.node(id);
    NodeSpec spec = CopyOf(body_, node, copies);
    if (!name.empty()) spec.name = absl::StrCat(name, "/", node.name);
    spec.random_id += shift;
    AddCopy(body_, node, std::move(spec), builder_.graph(), copies);
  }
  std::vector<ValueId> result;
  for (const int output : outputs) {
    const ValueId value = body_.outputs[static_cast<size_t>(output)].value;
    result.push_back(value.valid() ? copies[static_cast<size_t>(value.index)] : ValueId());
  }
  return result;
}

}  // namespace snug::core
