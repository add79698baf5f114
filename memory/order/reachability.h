// Which tasks surely follow which, through any number of others: cheap, and good enough for graphs of any size.
//
// What lies below a task in a depth-first tree follows it. Of two trees at least one tells of nearly every pair of a
// training graph; a bit for each pair would tell of all, but take n * n bits and n * edges / 64 steps.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/order/task_net.h"

namespace snug::memory {

class Reachability {
 public:
  // `order` is a legal one of the tasks of `after`. O(n + edges).
  Reachability(const Lists& after, const TaskOrder& order);

  // Whether `task` runs after `other` in every legal order. False may mean that it is not known.
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
    int32_t begin = 0, end = 0;  // numbers, in depth-first sequence, of a task and all below it
  };

  static std::vector<Interval> GrowTree(const Lists& after, const TaskOrder& order, bool last_first);

  std::vector<std::vector<Interval>> trees_;
};

}  // namespace snug::memory
