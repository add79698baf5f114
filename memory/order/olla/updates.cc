#include <algorithm>

#include "memory/order/olla/graph.h"
#include "memory/order/olla/reductions.h"

namespace snug::core::memory {
namespace {

struct TaskLevels {
  std::vector<std::vector<int32_t>> before, after;
  std::vector<int32_t> forward, backward;  // by task: the longest path to it, and the longest path from it
};

TaskLevels LevelsOf(const Tasks& tasks) {
  const size_t n = tasks.names.size();
  TaskLevels levels{.before = std::vector<std::vector<int32_t>>(n),
                    .after = std::vector<std::vector<int32_t>>(n),
                    .forward = std::vector<int32_t>(n, 0),
                    .backward = std::vector<int32_t>(n, 0)};
  ForEachPrecedence(tasks, [&](int32_t before, int32_t after) {
    levels.after[static_cast<size_t>(before)].push_back(after);
    levels.before[static_cast<size_t>(after)].push_back(before);
  });
  const TaskOrder order = FirstOrder(tasks);
  for (const int32_t task : order) {
    for (const int32_t next : levels.after[static_cast<size_t>(task)]) {
      int32_t& level = levels.forward[static_cast<size_t>(next)];
      level = std::max(level, levels.forward[static_cast<size_t>(task)] + 1);
    }
  }
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    for (const int32_t previous : levels.before[static_cast<size_t>(*task)]) {
      int32_t& level = levels.backward[static_cast<size_t>(previous)];
      level = std::max(level, levels.backward[static_cast<size_t>(*task)] + 1);
    }
  }
  return levels;
}

// Finds the tasks that only free: they write no bytes and read some value that is not resident.
std::vector<bool> Updates(const Tasks& tasks) {
  std::vector<bool> writes(tasks.names.size(), false);
  std::vector<bool> frees(tasks.names.size(), false);
  for (const TaskValue& value : tasks.values) {
    if (value.size_bytes == 0 || value.resident) continue;
    if (value.producer >= 0) writes[static_cast<size_t>(value.producer)] = true;
    if (value.fetched) continue;
    for (const int32_t reader : value.readers) frees[static_cast<size_t>(reader)] = true;
  }
  for (size_t task = 0; task < writes.size(); ++task) frees[task] = frees[task] && !writes[task];
  return frees;
}

// Functions 3 and 4 of the paper. Goes from the update's inputs outwards, one ring of predecessors after the other,
// until what follows the ring holds a task on a higher level than the update's. Among several it takes the one with the
// longest path to the end, because that one has to be early itself. All edges, the new ones too, lead to higher levels,
// so there is no cycle.
int32_t FindAnchor(int32_t update, const TaskLevels& levels, const std::vector<bool>& updates) {
  std::vector<bool> visited(levels.before.size(), false);
  std::vector<int32_t> ring = levels.before[static_cast<size_t>(update)];
  while (!ring.empty()) {
    int32_t anchor = -1;
    std::vector<int32_t> stack = ring;
    while (!stack.empty()) {
      const int32_t task = stack.back();
      stack.pop_back();
      for (const int32_t next : levels.after[static_cast<size_t>(task)]) {
        const auto i = static_cast<size_t>(next);
        if (visited[i] || updates[i]) continue;
        visited[i] = true;
        if (levels.forward[i] <= levels.forward[static_cast<size_t>(update)]) {
          stack.push_back(next);
        } else if (anchor < 0 || levels.backward[i] > levels.backward[static_cast<size_t>(anchor)]) {
          anchor = next;
        }
      }
    }
    if (anchor >= 0) return anchor;
    std::vector<int32_t> outer;
    for (const int32_t task : ring) {
      const std::vector<int32_t>& before = levels.before[static_cast<size_t>(task)];
      outer.insert(outer.end(), before.begin(), before.end());
    }
    std::sort(outer.begin(), outer.end());
    outer.erase(std::unique(outer.begin(), outer.end()), outer.end());
    ring = std::move(outer);
  }
  return -1;
}

}  // namespace

std::vector<std::pair<int32_t, int32_t>> EarlyUpdateEdges(const Tasks& tasks) {
  const TaskLevels levels = LevelsOf(tasks);
  const std::vector<bool> updates = Updates(tasks);
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t task = 0; task < tasks.size(); ++task) {
    if (!updates[static_cast<size_t>(task)]) continue;
    if (const int32_t anchor = FindAnchor(task, levels, updates); anchor >= 0) edges.emplace_back(task, anchor);
  }
  return edges;
}

}  // namespace snug::core::memory
