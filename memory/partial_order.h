// Knows which task comes before which, when some may run at once. k chains cover the tasks, and every task keeps, for
// each chain, how far up the chain it has ancestors (a vector clock). A clock has no entry for a chain without
// ancestors, so space and time are O(n k) at worst and close to O(n + edges) for graphs of few branches. It never
// builds the closure over all pairs.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/tasks.h"

namespace snug::core::memory {

using Edge = std::pair<int32_t, int32_t>;  // (before, after)

// Returns each precedence of the tasks, from producers to readers and the further ones; sorted, each once.
std::vector<Edge> PrecedenceOf(const Tasks& tasks);

// Returns the tasks of one cycle, each before the next and the last before the first; empty where there is none. The
// edges name tasks in [0, tasks).
std::vector<int32_t> FindCycle(int32_t tasks, const std::vector<Edge>& edges);

class PartialOrder {
 public:
  // Fails with InvalidArgument when the edges form a cycle or name tasks outside [0, tasks).
  static absl::StatusOr<PartialOrder> Create(int32_t tasks, const std::vector<Edge>& edges);

  // Tells whether there is a path from `a` to `b`, which must differ. O(log k).
  bool Before(int32_t a, int32_t b) const;

  int32_t size() const { return static_cast<int32_t>(place_.size()); }
  int32_t chains() const { return chains_; }
  // Returns a legal sequence of the tasks: of those that are ready, always the one with the smallest id.
  const std::vector<int32_t>& sequence() const { return sequence_; }

 private:
  struct ChainPosition {
    int32_t chain = -1;
    int32_t position = 0;  // the place within the chain
  };

  int32_t chains_ = 0;
  std::vector<int32_t> sequence_;
  std::vector<ChainPosition> place_;
  // The last ancestor of each task (or the task itself) in each chain, sorted by chain.
  std::vector<std::vector<ChainPosition>> clock_;
};

}  // namespace snug::core::memory
