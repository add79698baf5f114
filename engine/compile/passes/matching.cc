#include "engine/compile/passes/matching.h"

namespace snug::core {

Surroundings::Surroundings(const Graph& graph) : readers_(ReadersOf(graph)), kept_(graph.value_capacity(), false) {
  for (const Output& output : graph.outputs) kept_[static_cast<size_t>(output.value.index)] = true;
  for (const ValueId objective : graph.objectives) kept_[static_cast<size_t>(objective.index)] = true;
}

NodeId Surroundings::SoleReader(ValueId value) const {
  const auto i = static_cast<size_t>(value.index);
  return readers_[i].size() == 1 && !kept_[i] ? readers_[i][0] : NodeId();
}

}  // namespace snug::core
