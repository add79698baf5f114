#include <utility>

#include "engine/base/status.h"
#include "engine/compile/schedule/stages.h"
#include "ops/graph_builder.h"

namespace snug::core {

Executable Lower(const Graph& graph, const std::vector<KernelChoice>& kernels, const StepTasks& tasks, MemoryPlan plan,
                 absl::Span<const CallerValue> bound, int threads) {
  Executable executable{.threads = threads};
  const ValueRegions regions(graph, tasks, plan.state_plan, plan.step.placement.plan);
  const auto slot_in = [](const Region& region) { return Slot{static_cast<Arena>(region.arena), region.begin}; };
  const auto in_block = [&](int32_t buffer, int64_t offset) {
    return Slot{Arena::kBlocks, offset, plan.dynamic->block_of_buffer[static_cast<size_t>(buffer)]};
  };
  const auto slot_of = [&](ValueId value) {
    if (!value.valid()) return Slot();
    const auto index = static_cast<size_t>(value.index);
    const int32_t buffer = tasks.buffer_of_value[index];
    if (tasks.caller_of_value[index] >= 0) {
      return Slot{Arena::kCaller, tasks.offset_of_value[index], tasks.caller_of_value[index]};
    }
    return plan.dynamic.has_value() && buffer >= 0 ? in_block(buffer, tasks.offset_of_value[index])
                                                   : slot_in(regions.Of(value));
  };
  for (const int32_t task : plan.step.order) {
    const NodeId id = tasks.node_of_task[static_cast<size_t>(task)];
    const Node& node = graph.node(id);
    const KernelChoice& choice = kernels[static_cast<size_t>(id.index)];
    Step step{.kernel = choice.kernel,
              .instead = choice.instead,
              .types = TypesOf(graph, node),
              .prepared = choice.prepared,
              .random_id = node.random_id,
              .node = id,
              .accesses = regions.AccessesOf(task),
              .mutates = !tasks.mutated_by_task[static_cast<size_t>(task)].empty()};
    for (const ValueId input : node.inputs) step.inputs.push_back(slot_of(input));
    for (const ValueId output : node.outputs) step.outputs.push_back(slot_of(output));
    if (const Region workspace = regions.OfWorkspace(id); workspace.begin < workspace.end) {
      const int32_t buffer = tasks.workspace_of_node[static_cast<size_t>(id.index)];
      step.workspace = plan.dynamic.has_value() ? in_block(buffer, 0) : slot_in(workspace);
    }
    executable.steps.push_back(std::move(step));
  }
  for (const ValueId input : graph.inputs()) {
    const Value& value = graph.value(input);
    const int32_t buffer = tasks.buffer_of_value[static_cast<size_t>(input.index)];
    const auto lasts = [](const memory::TaskValue& bytes) { return bytes.resident || bytes.fetched; };
    const bool kept = buffer < 0 || lasts(tasks.tasks.values[static_cast<size_t>(buffer)]) || plan.dynamic.has_value();
    executable.inputs.push_back({value.name, value.type, slot_of(input), value.max_value, kept});
  }
  for (const Output& output : graph.outputs) {
    executable.outputs.push_back({output.name, graph.type(output.value), slot_of(output.value)});
  }
  for (const CallerValue& one : bound)
    executable.caller_buffers.push_back({one.name, graph.type(one.value), one.input});
  for (size_t i = 0; i < graph.variables().size(); ++i) {
    const bool has_bytes = tasks.state.buffers[i].size_bytes > 0;
    executable.variables.push_back(has_bytes ? slot_of(graph.variables()[i].value) : Slot());
  }
  executable.memory = std::move(plan);
  return executable;
}

}  // namespace snug::core
