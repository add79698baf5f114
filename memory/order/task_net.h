// Tasks in the form that orderers read: flat arrays, without anything that has no influence on an order's peak.
//
// A closed set is a set of tasks that holds all that its members need. live(S) is the bytes of the values that tasks
// outside S, or the user, still need when just S has run. An order is a chain of closed sets; its peak is the maximum
// of live(S) + write_bytes(t) over its steps S -> S + t. live is submodular, which is why the cuts (min_cut.h) work.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/tasks.h"

namespace snug::core::memory {

// Lists of task or value numbers, one for each of 0 .. n-1, all in one array.
class Lists {
 public:
  Lists() : begin_(1, 0) {}
  // Makes the lists from (list, item) pairs; each list keeps the sequence of the pairs.
  Lists(int32_t n, absl::Span<const std::pair<int32_t, int32_t>> pairs);
  absl::Span<const int32_t> operator[](int32_t list) const {
    const size_t from = begin_[static_cast<size_t>(list)];
    return {items_.data() + from, begin_[static_cast<size_t>(list) + 1] - from};
  }
  size_t total() const { return items_.size(); }

 private:
  std::vector<size_t> begin_;
  std::vector<int32_t> items_;
};

struct NetValue {
  int64_t bytes = 0;      // always > 0
  int32_t producer = -1;  // -1: it is there before the first task
  bool fetched = false;   // it lives to the end
};

// Tasks have the numbers that they have in Tasks. Values are the non-resident ones of more than 0 bytes; values of one
// producer with the same readers are joined.
struct TaskNet {
  TaskNet() = default;
  explicit TaskNet(const Tasks& tasks);
  // Sets values, start_bytes, and the lists of both from `all` values and the readers of each.
  void SetValues(const std::vector<NetValue>& all, std::vector<std::vector<int32_t>> read_by);
  // Sets `before` and `after`.
  void SetEdges(std::vector<std::pair<int32_t, int32_t>> edges);

  int32_t size = 0;
  std::vector<NetValue> values;
  Lists readers;                     // by value: the tasks that read it; none where it lives only at its producer
  Lists inputs;                      // by task: the values that it reads
  Lists outputs;                     // by task: the values that it produces
  Lists before, after;               // precedence, transitively reduced as far as that is cheap
  std::vector<int64_t> write_bytes;  // by task: the bytes of all its outputs, read or not
  int64_t resident_bytes = 0;        // counted in no live(S), so it is added to every figure that is shown
  int64_t start_bytes = 0;           // what is live before the first task

  // Returns a legal order: of the tasks that are ready, always the first in program order.
  TaskOrder ProgramOrder() const;
};

// Returns the peak without resident bytes.
int64_t NetPeak(const TaskNet& net, const TaskOrder& order);

// Knows, for most pairs, which task follows which through any number of others. It is cheap enough for graphs of any
// size.
//
// A task follows all tasks above it in a depth-first tree. Two trees together cover nearly all pairs of a training
// graph. A bit for each pair would cover all, but take n * n bits and n * edges / 64 steps.
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
