// Knows, for most pairs, which task follows which through any number of others. It is cheap enough for graphs of any
// size.
//
// A task follows all tasks above it in a depth-first tree. Two trees together cover nearly all pairs of a training
// graph. A bit for each pair would cover all, but take n * n bits and n * edges / 64 steps.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/order/task_net.h"

namespace snug::core::memory {

class Reachability {
 public:
  // `order` must be a legal order of the tasks of `after`. O(n + edges).
  Reachability(const Lists& after, const TaskOrder& order);

  // Tells whether `task` runs after `other` in every legal order. False may also mean that this is not known.
  bool SurelyFollows(int32_t task, int32_t other) const {
    const auto t = static_cast<size_t>(task);
    for (const std::vector<Interval>& tree : trees_) {
      const Interval below = tree[static_cast<size_t>(other)];
      if (below.begin < tree[t].begin && tree[t].begin < below.end) return true;
    }
    return false;
  }

 private:
  struct Interval {
    int32_t begin = 0, end = 0;  // the depth-first numbers of a task and all below it lie in [begin, end)
  };

  static std::vector<Interval> GrowTree(const Lists& after, const TaskOrder& order, bool last_first);

  std::vector<std::vector<Interval>> trees_;
};

}  // namespace snug::core::memory
