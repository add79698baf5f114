#include "engine/compile/kernels/readers.h"

#include <algorithm>

namespace snug::core {

std::vector<NodeId> Readers::Of(ValueId value) const {
  const auto index = static_cast<size_t>(value.index);
  return index < of_.size() ? of_[index] : std::vector<NodeId>();
}

void Readers::Add(ValueId value, NodeId reader) {
  const auto index = static_cast<size_t>(value.index);
  if (of_.size() <= index) of_.resize(index + 1);
  of_[index].push_back(reader);
}

void Readers::ReplaceUses(Graph& graph, ValueId from, ValueId to) {
  for (const NodeId reader : Of(from)) {
    for (ValueId& input : graph.node(reader).inputs) {
      if (input != from) continue;
      input = to;
      Add(to, reader);
    }
  }
  if (static_cast<size_t>(from.index) < of_.size()) of_[static_cast<size_t>(from.index)].clear();
  for (Output& output : graph.outputs) {
    if (output.value == from) output.value = to;
  }
  std::replace(graph.objectives.begin(), graph.objectives.end(), from, to);
}

void Readers::ReadInstead(Graph& graph, ValueId value, ValueId other) {
  ReplaceUses(graph, value, other);
  const NodeId producer = graph.value(other).producer;
  graph.node(producer).inputs[0] = value;
  Add(value, producer);
}

}  // namespace snug::core
