#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "memory/order/olla/reductions.h"
#include "memory/order/task_net.h"

namespace snug::core::memory {

MergedTasks Merge(const Tasks& tasks) {
  MergedTasks merged{.tasks = {}, .reduced = Reduce(TaskNet(tasks))};
  const TaskNet& net = merged.reduced.net;
  std::vector<int64_t> scratch = net.write_bytes;
  for (int32_t task = 0; task < net.size; ++task) {
    const TaskOrder& members = merged.reduced.members[static_cast<size_t>(task)];
    merged.tasks.names.push_back(tasks.names[static_cast<size_t>(members.back())]);
    for (const int32_t after : net.after[task]) merged.tasks.edges.emplace_back(task, after);
  }
  for (size_t v = 0; v < net.values.size(); ++v) {
    const NetValue& value = net.values[v];
    const absl::Span<const int32_t> readers = net.readers[static_cast<int32_t>(v)];
    merged.tasks.values.push_back({.name = absl::StrCat("value ", v),
                                   .size_bytes = value.bytes,
                                   .producer = value.producer,
                                   .readers = {readers.begin(), readers.end()},
                                   .fetched = value.fetched});
    if (value.producer >= 0) scratch[static_cast<size_t>(value.producer)] -= value.bytes;
  }
  for (int32_t task = 0; task < net.size; ++task) {
    const int64_t bytes = scratch[static_cast<size_t>(task)];
    if (bytes <= 0) continue;
    merged.tasks.values.push_back({.name = absl::StrCat("scratch of ", task), .size_bytes = bytes, .producer = task});
  }
  if (net.resident_bytes > 0) {
    merged.tasks.values.push_back({.name = "resident", .size_bytes = net.resident_bytes, .resident = true});
  }
  return merged;
}

TaskOrder MergedTasks::Collapse(const TaskOrder& order) const {
  const TaskNet& net = reduced.net;
  std::vector<int32_t> group_of(order.size(), 0);
  for (size_t group = 0; group < reduced.members.size(); ++group) {
    for (const int32_t member : reduced.members[group]) {
      group_of[static_cast<size_t>(member)] = static_cast<int32_t>(group);
    }
  }
  std::vector<int32_t> place(static_cast<size_t>(net.size), 0);
  for (size_t at = 0; at < order.size(); ++at) {
    place[static_cast<size_t>(group_of[static_cast<size_t>(order[at])])] = static_cast<int32_t>(at);
  }
  using PositionAndTask = std::pair<int32_t, int32_t>;
  std::priority_queue<PositionAndTask, std::vector<PositionAndTask>, std::greater<>> ready;
  std::vector<size_t> waiting_for(static_cast<size_t>(net.size));
  for (int32_t task = 0; task < net.size; ++task) {
    waiting_for[static_cast<size_t>(task)] = net.before[task].size();
    if (net.before[task].empty()) ready.emplace(place[static_cast<size_t>(task)], task);
  }
  TaskOrder result;
  while (!ready.empty()) {
    const int32_t task = ready.top().second;
    ready.pop();
    result.push_back(task);
    for (const int32_t after : net.after[task]) {
      if (--waiting_for[static_cast<size_t>(after)] == 0) ready.emplace(place[static_cast<size_t>(after)], after);
    }
  }
  return result;
}

}  // namespace snug::core::memory
