#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/compile/memory/tasks.h"

namespace snug::core {

memory::TaskOrder GivenOrder(const Graph& graph, const StepTasks& step) {
  const size_t n = step.node_of_task.size();
  std::vector<char> update(n);
  for (size_t t = 0; t < n; ++t) update[t] = graph.node(step.node_of_task[t]).phase == Phase::kUpdate ? 1 : 0;
  const auto is_update = [&](int32_t task) { return update[static_cast<size_t>(task)] != 0; };
  std::vector<std::vector<int32_t>> waiting_updates(n);  // the update tasks that wait for each task
  std::vector<int> missing(n, 0);
  const auto wait = [&](int32_t task, int32_t before) {
    if (!is_update(task)) return;
    waiting_updates[static_cast<size_t>(before)].push_back(task);
    ++missing[static_cast<size_t>(task)];
  };
  for (const memory::TaskValue& value : step.tasks.values) {
    if (value.producer < 0) continue;
    for (const int32_t reader : value.readers) wait(reader, value.producer);
  }
  for (const auto& [before, after] : step.tasks.edges) wait(after, before);
  for (std::vector<int32_t>& updates : waiting_updates) std::sort(updates.begin(), updates.end());

  std::vector<char> at_once(n);  // updates that wait for nothing stay where they are
  for (size_t t = 0; t < n; ++t) at_once[t] = !is_update(static_cast<int32_t>(t)) || missing[t] == 0;
  memory::TaskOrder order;
  order.reserve(n);
  std::vector<int32_t> ready;  // a stack: what became ready last runs first
  for (size_t start = 0; start < n; ++start) {
    if (!at_once[start]) continue;
    ready.push_back(static_cast<int32_t>(start));
    while (!ready.empty()) {
      const int32_t task = ready.back();
      ready.pop_back();
      order.push_back(task);
      const std::vector<int32_t>& updates = waiting_updates[static_cast<size_t>(task)];
      for (auto it = updates.rbegin(); it != updates.rend(); ++it) {
        if (--missing[static_cast<size_t>(*it)] == 0) ready.push_back(*it);
      }
    }
  }
  return order;
}

}  // namespace snug::core
