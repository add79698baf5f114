#include "engine/compile/summary.h"

#include <algorithm>

#include "ops/graph_builder.h"

namespace snug::core {

GraphSummary Summarize(const Graph& graph, const OpRegistry& registry) {
  GraphSummary summary;
  for (const Variable& variable : graph.variables()) {
    if (variable.role == VariableRole::kParameter) summary.parameters += variable.type.num_elements();
  }
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    ++summary.nodes;
    const Node& node = graph.node(id);
    if (node.phase != Phase::kForward) continue;
    const OpDef& op = registry.Get(node.op);
    summary.multiply_adds += CostOf(op, TypesOf(graph, node)).multiply_adds;
    // A cast or packed form of a Variable counts as part of it, not as data that flows.
    const bool of_variables =
        !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(),
                                            [&](ValueId v) { return v.valid() && graph.value(v).variable.valid(); });
    if (op.traits.view || of_variables) continue;
    for (const ValueId output : node.outputs) summary.activation_bytes += graph.type(output).size_bytes();
  }
  return summary;
}

}  // namespace snug::core
