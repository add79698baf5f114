// Remembers the sets of tasks that a search has visited, by hashes of 128 bits: that two sets of a search share one is
// as good as impossible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug::core::memory {

// The exclusive or of the random keys of a set's tasks.
struct TaskSetHash {
  uint64_t low = 0, high = 0;
};

class TaskSets {
 public:
  // Inserts a set that is not held yet. It is dropped when there are too many already: the table takes at most 128 MiB.
  void Insert(TaskSetHash hash);
  bool Holds(TaskSetHash hash) const;
  void Clear() { *this = TaskSets(); }

 private:
  void Grow();

  std::vector<TaskSetHash> slots_;  // open addressing; all zeros means empty
  size_t count_ = 0;
};

}  // namespace snug::core::memory
