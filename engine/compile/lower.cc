#include "engine/compile/lower.h"

#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug {

Executable Lower(const Graph& graph, const Order& order, const std::vector<KernelChoice>& kernels, Liveness liveness,
                 memory::Plan state_plan, memory::Plan step_plan, int threads) {
  Executable executable{.threads = threads};
  const auto slot_of = [&](ValueId value) -> Slot {
    if (!value.valid()) return {};
    const VariableId variable = liveness.variable_of_value[static_cast<size_t>(value.index)];
    if (variable.valid()) return {Arena::kState, state_plan.offsets[static_cast<size_t>(variable.index)]};
    const int buffer = liveness.buffer_of_value[static_cast<size_t>(value.index)];
    SNUG_CHECK_MSG(buffer >= 0, graph.value(value).name);
    return {Arena::kStep, step_plan.offsets[static_cast<size_t>(buffer)]};
  };
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const KernelChoice& choice = kernels[static_cast<size_t>(id.index)];
    if (choice.kernel == nullptr) continue;  // a view
    Step step{.kernel = choice.kernel,
              .types = TypesOf(graph, node),
              .prepared = choice.prepared,
              .random_id = node.random_id,
              .node = id};
    for (const ValueId input : node.inputs) step.inputs.push_back(slot_of(input));
    for (const ValueId output : node.outputs) step.outputs.push_back(slot_of(output));
    const int workspace = liveness.workspace_of_node[static_cast<size_t>(id.index)];
    if (workspace >= 0) step.workspace = {Arena::kStep, step_plan.offsets[static_cast<size_t>(workspace)]};
    executable.steps.push_back(std::move(step));
  }
  for (const ValueId input : graph.inputs()) {
    const Value& value = graph.value(input);
    executable.inputs.push_back({value.name, value.type, slot_of(input), value.max_value});
  }
  for (const Output& output : graph.outputs) {
    executable.outputs.push_back({output.name, graph.type(output.value), slot_of(output.value)});
  }
  for (const Variable& variable : graph.variables()) executable.variables.push_back(slot_of(variable.value));
  executable.state_problem = std::move(liveness.state);
  executable.step_problem = std::move(liveness.step);
  executable.state_plan = std::move(state_plan);
  executable.step_plan = std::move(step_plan);
  return executable;
}

}  // namespace snug
