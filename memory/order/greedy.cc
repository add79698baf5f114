#include <algorithm>
#include <queue>
#include <tuple>
#include <vector>

#include "memory/order/live_sweep.h"

namespace snug::core::memory {
namespace {

// A heap of ready tasks by (first, second, task), least first. An outdated entry is skipped when it comes up.
class TaskHeap {
 public:
  void Push(int64_t first, int64_t second, int32_t task) { heap_.emplace(first, second, task); }
  template <typename Holds>
  int32_t Top(const Holds& holds) {
    while (!heap_.empty()) {
      const auto& [first, second, task] = heap_.top();
      if (holds(first, second, task)) return task;
      heap_.pop();
    }
    return -1;
  }

 private:
  using Entry = std::tuple<int64_t, int64_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

// `key(task, sweep, step)` returns the pair to sort by, least first; it may change only when the task's Delta does.
template <typename Key>
TaskOrder Sweep(const TaskNet& net, Direction direction, int64_t bound, const Key& key) {
  LiveSweep sweep(net, direction);
  TaskHeap preferred, free;  // each ready task is in `preferred`; those that lower the live bytes are in `free` too
  int64_t step = 0;
  std::vector<std::pair<int64_t, int64_t>> current(static_cast<size_t>(net.size));
  const auto enter = [&](int32_t task) {
    const auto entry = key(task, sweep, step);
    current[static_cast<size_t>(task)] = entry;
    preferred.Push(entry.first, entry.second, task);
    if (sweep.Delta(task) <= 0) free.Push(sweep.Rise(task), 0, task);
  };
  for (int32_t t = 0; t < net.size; ++t) {
    if (sweep.Ready(t)) enter(t);
  }
  TaskOrder order;
  order.reserve(static_cast<size_t>(net.size));
  for (; step < net.size; ++step) {
    int32_t task = free.Top([&](int64_t rise, int64_t, int32_t t) { return !sweep.Taken(t) && rise == sweep.Rise(t); });
    if (task < 0 || sweep.live() + sweep.Rise(task) > bound) {
      task = preferred.Top([&](int64_t first, int64_t second, int32_t t) {
        return !sweep.Taken(t) && current[static_cast<size_t>(t)] == std::make_pair(first, second);
      });
    }
    order.push_back(task);
    sweep.Take(task);
    for (const int32_t changed : sweep.changed()) enter(changed);
  }
  if (direction == Direction::kBackward) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

TaskOrder GreedySweep(const TaskNet& net, Direction direction, TaskPreference preference, int64_t bound) {
  return Sweep(net, direction, bound, [&](int32_t task, const LiveSweep& sweep, int64_t step) {
    switch (preference) {
      case TaskPreference::kLeastDelta:
        return std::make_pair(sweep.Delta(task), sweep.Rise(task));
      case TaskPreference::kLeastRise:
        return std::make_pair(sweep.Rise(task), sweep.Delta(task));
      case TaskPreference::kNewest:
        return std::make_pair(-step, sweep.Delta(task));
    }
    return std::make_pair(int64_t{0}, int64_t{0});
  });
}

TaskOrder FollowOrder(const TaskNet& net, Direction direction, const TaskOrder& order, int64_t bound) {
  std::vector<int64_t> rank(order.size());
  for (size_t at = 0; at < order.size(); ++at) {
    rank[static_cast<size_t>(order[at])] =
        direction == Direction::kForward ? static_cast<int64_t>(at) : -static_cast<int64_t>(at);
  }
  return Sweep(net, direction, bound, [&](int32_t task, const LiveSweep&, int64_t) {
    return std::make_pair(rank[static_cast<size_t>(task)], int64_t{0});
  });
}

TaskOrder Tighten(const TaskNet& net, TaskOrder order) {
  int64_t peak = NetPeak(net, order);
  for (;;) {
    order = FollowOrder(net, Direction::kForward, order, peak);
    order = FollowOrder(net, Direction::kBackward, order, peak);
    const int64_t sunk = NetPeak(net, order);
    if (sunk >= peak) return order;
    peak = sunk;
  }
}

}  // namespace snug::core::memory
