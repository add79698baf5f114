// What OLLA's programs need to know about the Tasks: who must run before whom, and when each task can run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/tasks.h"

namespace snug::core::memory {

class OllaGraph {
 public:
  // The edges in `extra` are added to those of `tasks`. Takes O(n * edges / 64) time and n * n / 4 bytes, which suits
  // graphs of thousands of tasks.
  OllaGraph(const Tasks& tasks, const std::vector<std::pair<int32_t, int32_t>>& extra);

  const Tasks& tasks() const { return *tasks_; }
  int32_t size() const { return tasks_->size(); }

  bool Precedes(int32_t before, int32_t after) const { return ancestors_.Test(after, before); }

  // Returns the direct predecessors that do not follow from other predecessors.
  const std::vector<int32_t>& before(int32_t task) const { return before_[static_cast<size_t>(task)]; }

  // Only one task runs at a time, so a task's position is at least the number of its ancestors, and its descendants
  // must fit in behind it. (The paper lets tasks run at once and counts the longest path, which never gives a narrower
  // span.)
  int32_t earliest(int32_t task) const { return earliest_[static_cast<size_t>(task)]; }
  int32_t latest(int32_t task) const { return latest_[static_cast<size_t>(task)]; }

  // Returns the readers of a value that no other reader has to follow: the last reader is among them.
  const std::vector<int32_t>& last_readers(size_t value) const { return last_readers_[value]; }

  // Tells whether value `a` has died before `b` is written, in every order.
  bool DiesBefore(size_t a, size_t b) const;

  // Tells whether some task needs both, in every order.
  bool Together(size_t a, size_t b) const;

 private:
  class BitMatrix {
   public:
    explicit BitMatrix(int32_t n)
        : words_((static_cast<size_t>(n) + 63) / 64), bits_(words_ * static_cast<size_t>(n)) {}
    bool Test(int32_t row, int32_t column) const {
      return (bits_[Word(row, column)] >> (static_cast<size_t>(column) % 64) & 1) != 0;
    }
    void Set(int32_t row, int32_t column) {
      bits_[Word(row, column)] |= uint64_t{1} << (static_cast<size_t>(column) % 64);
    }
    void Merge(int32_t into, int32_t from);
    int32_t Count(int32_t row) const;

   private:
    size_t Word(int32_t row, int32_t column) const {
      return static_cast<size_t>(row) * words_ + static_cast<size_t>(column) / 64;
    }
    size_t words_;
    std::vector<uint64_t> bits_;
  };

  const Tasks* tasks_;
  BitMatrix ancestors_;
  std::vector<std::vector<int32_t>> before_;
  std::vector<int32_t> earliest_, latest_;
  std::vector<std::vector<int32_t>> last_readers_;
};

// Returns the first legal order: of the tasks that can run, always the first in the program.
TaskOrder FirstOrder(const Tasks& tasks);

// Returns edges that put tasks without bytes and neighbours (sources of weights) first: their position does not matter,
// but in a program each of them could stand anywhere.
std::vector<std::pair<int32_t, int32_t>> IdleTasksFirst(const Tasks& tasks);

// Calls visit(before, after) for each precedence, possibly more than once for a pair.
template <typename Visit>
void ForEachPrecedence(const Tasks& tasks, const Visit& visit) {
  for (const TaskValue& value : tasks.values) {
    if (value.producer < 0 || value.resident) continue;
    for (const int32_t reader : value.readers) visit(value.producer, reader);
  }
  for (const auto& [before, after] : tasks.edges) visit(before, after);
}

}  // namespace snug::core::memory
