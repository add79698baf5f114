#include <absl/algorithm/container.h>

#include <utility>
#include <vector>

#include "engine/compile/memory/join_launches.h"
#include "engine/compile/memory/plan_room.h"
#include "engine/compile/schedule/launch_groups.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

struct CastGroup {
  const KernelRow* row;
  NodeTypes types;   // of its first cast
  size_t first;      // a task
  int32_t position;  // of the first
  int casts;
};

// Says whether a node reads nothing but Variables.
bool ReadsVariables(const StepTasks& step, const Node& node) {
  return absl::c_all_of(node.inputs, [&](ValueId input) {
    return input.valid() && step.variable_of_value[static_cast<size_t>(input.index)].valid();
  });
}

}  // namespace

void BringCastsForward(const Compiled& compiled, MemoryPlan* plan) {
  const StepTasks& step = compiled.tasks;
  const memory::TaskOrder& order = plan->step.order;
  std::vector<char> follows(order.size());  // by task: whether it has to come after another one
  std::vector<std::vector<size_t>> written_by(order.size());
  for (size_t value = 0; value < step.tasks.values.size(); ++value) {
    const memory::TaskValue& of = step.tasks.values[value];
    for (const int32_t reader : of.readers) follows[static_cast<size_t>(reader)] = 1;
    if (of.producer >= 0) written_by[static_cast<size_t>(of.producer)].push_back(value);
  }
  for (const auto& [before, after] : step.tasks.edges) follows[static_cast<size_t>(after)] = 1;

  PlanRoom room(plan->step.problem, &plan->step.placement.plan);
  std::vector<std::vector<int32_t>> brought(order.size());  // by task: those that come right after it now
  std::vector<char> has_moved(order.size());
  std::vector<CastGroup> groups;  // the newest of each kernel
  for (size_t i = 0; i < order.size(); ++i) {
    const auto task = static_cast<size_t>(order[i]);
    const NodeId id = step.node_of_task[task];
    const Node& node = compiled.graph.node(id);
    const KernelRow* row = compiled.kernels[static_cast<size_t>(id.index)].kernel.get();
    NodeTypes types = TypesOf(compiled.graph, node);
    if (!CanJoin(*row, types) || follows[task] || !step.mutated_by_task[task].empty() || !ReadsVariables(step, node)) {
      continue;
    }
    const auto group =
        absl::c_find_if(groups, [&](const CastGroup& one) { return one.row == row && SameElements(one.types, types); });
    if (group == groups.end()) {
      groups.push_back({row, std::move(types), task, static_cast<int32_t>(i), 1});
      continue;
    }
    const bool joins = group->casts < kMostTogether && absl::c_all_of(written_by[task], [&](size_t buffer) {
                         return room.Keep(buffer, {group->position, group->position});
                       });
    if (joins) {
      brought[group->first].push_back(order[i]);
      has_moved[task] = 1;
      ++group->casts;
    } else {
      *group = {row, std::move(types), task, static_cast<int32_t>(i), 1};
    }
  }

  memory::TaskOrder joined;
  for (const int32_t task : order) {
    if (has_moved[static_cast<size_t>(task)]) continue;
    joined.push_back(task);
    const std::vector<int32_t>& after = brought[static_cast<size_t>(task)];
    joined.insert(joined.end(), after.begin(), after.end());
  }
  plan->step.order = std::move(joined);
  plan->step.problem = memory::LifetimesOf(step.tasks, plan->step.order);
}

}  // namespace snug::core
