// Tasks as orderers read them: flat arrays, and nothing in them that has no influence on the peak of an order.
//
// A closed set is a set of tasks that holds all that its members need. live(S) = bytes of the values that are live
// between S and what is left when S has just run. An order is a chain of closed sets; its peak is the maximum of
// live(S) + write_bytes(t) over its steps S -> S + t. live is submodular, which the cuts (min_cut.h) rest on.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/tasks.h"

namespace snug::memory {

// Lists of task or value numbers, one for each of 0 .. n-1, in one array.
class Lists {
 public:
  Lists() : begin_(1, 0) {}
  // From (list, item) pairs; each list keeps the sequence of the pairs.
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
  int64_t bytes = 0;      // > 0
  int32_t producer = -1;  // -1: there before the first task
  bool fetched = false;   // live to the end
};

// Task numbers are those of the Tasks. Values are the non-resident ones of more than 0 bytes; those of one producer
// with the same readers are one value here.
struct TaskNet {
  TaskNet() = default;
  explicit TaskNet(const Tasks& tasks);
  // Sets values, start_bytes and the lists of both from `all` and the readers of each.
  void SetValues(const std::vector<NetValue>& all, std::vector<std::vector<int32_t>> read_by);
  // Sets before and after.
  void SetEdges(std::vector<std::pair<int32_t, int32_t>> edges);

  int32_t size = 0;
  std::vector<NetValue> values;
  Lists readers;                     // tasks of a value; none for what is live only at its producer
  Lists inputs;                      // values that a task reads
  Lists outputs;                     // values that it produces
  Lists before, after;               // precedence, transitively reduced as far as that is cheap
  std::vector<int64_t> write_bytes;  // of all outputs, read or not
  int64_t resident_bytes = 0;        // counted in no live(S): add it to every figure that is shown
  int64_t start_bytes = 0;           // live before the first task

  // A legal order: of the tasks that are ready, the first in program order.
  TaskOrder ProgramOrder() const;
};

// The peak without resident bytes.
int64_t NetPeak(const TaskNet& net, const TaskOrder& order);

}  // namespace snug::memory
