#include "engine/compile/lower.h"

#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug {

Executable Lower(const Graph& graph, const std::vector<KernelChoice>& kernels, const StepTasks& tasks, MemoryPlan plan,
                 int threads) {
  Executable executable{.threads = threads};
  const std::vector<int64_t>& step_offsets = plan.step.placement.plan.offsets;
  const auto slot_of = [&](ValueId value) -> Slot {
    if (!value.valid()) return {};
    const VariableId variable = tasks.variable_of_value[static_cast<size_t>(value.index)];
    if (variable.valid()) return {Arena::kState, plan.state_plan.offsets[static_cast<size_t>(variable.index)]};
    const int32_t buffer = tasks.buffer_of_value[static_cast<size_t>(value.index)];
    SNUG_CHECK_MSG(buffer >= 0, graph.value(value).name);
    return {Arena::kStep, step_offsets[static_cast<size_t>(buffer)]};
  };
  for (const int32_t task : plan.step.order) {
    const NodeId id = tasks.node_of_task[static_cast<size_t>(task)];
    const Node& node = graph.node(id);
    const KernelChoice& choice = kernels[static_cast<size_t>(id.index)];
    Step step{.kernel = choice.kernel,
              .types = TypesOf(graph, node),
              .prepared = choice.prepared,
              .random_id = node.random_id,
              .node = id};
    for (const ValueId input : node.inputs) step.inputs.push_back(slot_of(input));
    for (const ValueId output : node.outputs) step.outputs.push_back(slot_of(output));
    const int32_t workspace = tasks.workspace_of_node[static_cast<size_t>(id.index)];
    if (workspace >= 0) step.workspace = {Arena::kStep, step_offsets[static_cast<size_t>(workspace)]};
    executable.steps.push_back(std::move(step));
  }
  for (const ValueId input : graph.inputs()) {
    const Value& value = graph.value(input);
    const int32_t buffer = tasks.buffer_of_value[static_cast<size_t>(input.index)];
    const memory::TaskValue& bytes = tasks.tasks.values[static_cast<size_t>(buffer)];
    executable.inputs.push_back(
        {value.name, value.type, slot_of(input), value.max_value, /*kept=*/bytes.resident || bytes.fetched});
  }
  for (const Output& output : graph.outputs) {
    executable.outputs.push_back({output.name, graph.type(output.value), slot_of(output.value)});
  }
  for (const Variable& variable : graph.variables()) executable.variables.push_back(slot_of(variable.value));
  executable.memory = std::move(plan);
  return executable;
}

}  // namespace snug
