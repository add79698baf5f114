#include <absl/algorithm/container.h>

#include <utility>
#include <vector>

#include "engine/compile/memory/join_launches.h"
#include "engine/compile/memory/plan_room.h"
#include "engine/compile/schedule/launch_groups.h"
#include "engine/compile/schedule/streams.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Returns the stream that alone uses each buffer, or kSeveral.
std::vector<int32_t> StreamsOfBuffers(const memory::Tasks& tasks, const memory::TaskOrder& order, int streams) {
  const std::vector<int32_t> stream_of = AssignStreams(tasks, order, streams);
  std::vector<int32_t> stream_of_task(order.size());
  for (size_t i = 0; i < order.size(); ++i) stream_of_task[static_cast<size_t>(order[i])] = stream_of[i];
  std::vector<int32_t> stream_of_buffer;
  for (const memory::TaskValue& value : tasks.values) {
    int32_t stream =
        value.producer < 0 || value.fetched ? PlanRoom::kSeveral : stream_of_task[static_cast<size_t>(value.producer)];
    for (const int32_t reader : value.readers) {
      if (stream_of_task[static_cast<size_t>(reader)] != stream) stream = PlanRoom::kSeveral;
    }
    stream_of_buffer.push_back(stream);
  }
  return stream_of_buffer;
}

struct JoinedUpdates {
  const KernelRow* row;
  NodeTypes types;              // of its first update
  std::vector<size_t> buffers;  // that its updates read
  int updates;
};

}  // namespace

void PutOffUpdates(const Compiled& compiled, int streams, MemoryPlan* plan) {
  const memory::Tasks& tasks = compiled.tasks.tasks;
  const memory::TaskOrder& order = plan->step.order;
  std::vector<std::vector<size_t>> read_by_task(order.size());
  for (size_t value = 0; value < tasks.values.size(); ++value) {
    for (const int32_t reader : tasks.values[value].readers) read_by_task[static_cast<size_t>(reader)].push_back(value);
  }
  PlanRoom room(plan->step.problem, &plan->step.placement.plan);
  if (streams > 1) room.SetStreams(StreamsOfBuffers(tasks, order, streams));

  std::vector<JoinedUpdates> groups;  // the newest of each kernel
  for (size_t i = 0; i < order.size(); ++i) {
    const auto task = static_cast<size_t>(order[i]);
    const NodeId node = compiled.tasks.node_of_task[task];
    const KernelRow* row = compiled.kernels[static_cast<size_t>(node.index)].kernel.get();
    NodeTypes types = TypesOf(compiled.graph, compiled.graph.node(node));
    if (!CanJoin(*row, types) || !types.outputs.empty()) continue;
    const auto group = absl::c_find_if(
        groups, [&](const JoinedUpdates& one) { return one.row == row && SameElements(one.types, types); });
    if (group == groups.end()) {
      groups.push_back({row, std::move(types), read_by_task[task], 1});
      continue;
    }
    const auto until = static_cast<int32_t>(i);
    const bool joins = group->updates < kMostTogether && absl::c_all_of(group->buffers, [&](size_t buffer) {
                         return room.Keep(buffer, {until, until});
                       });
    if (!joins) *group = {row, std::move(types), {}, 0};
    group->buffers.insert(group->buffers.end(), read_by_task[task].begin(), read_by_task[task].end());
    ++group->updates;
  }
}

}  // namespace snug::core
