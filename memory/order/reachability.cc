#include "memory/order/reachability.h"

#include <utility>

namespace snug::core::memory {

Reachability::Reachability(const Lists& after, const TaskOrder& order)
    : trees_{GrowTree(after, order, false), GrowTree(after, order, true)} {}

// Grows depth-first trees, each from the first task in legal order that no tree has yet. A task's followers are visited
// first to last, or last to first.
std::vector<Reachability::Interval> Reachability::GrowTree(const Lists& after, const TaskOrder& order,
                                                           bool last_first) {
  std::vector<Interval> tree(order.size(), Interval{-1, -1});
  std::vector<std::pair<int32_t, size_t>> path;  // a task, and how many of its followers were visited
  int32_t count = 0;
  const auto enter = [&](int32_t task) {
    tree[static_cast<size_t>(task)].begin = count++;
    path.emplace_back(task, 0);
  };
  for (const int32_t root : order) {
    if (tree[static_cast<size_t>(root)].begin < 0) enter(root);
    while (!path.empty()) {
      auto& [task, looked] = path.back();
      const auto followers = after[task];
      if (looked == followers.size()) {
        tree[static_cast<size_t>(task)].end = count;
        path.pop_back();
        continue;
      }
      const int32_t next = followers[last_first ? followers.size() - 1 - looked : looked];
      ++looked;
      if (tree[static_cast<size_t>(next)].begin < 0) enter(next);
    }
  }
  return tree;
}

}  // namespace snug::core::memory
