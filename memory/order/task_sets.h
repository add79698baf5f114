// Sets of tasks that a search has been to, by their hashes: 128 bits each, so that two sets of a search share one is
// beyond chance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug::memory {

// Of the random keys of its tasks, the exclusive or.
struct TaskSetHash {
  uint64_t low = 0, high = 0;
};

class TaskSets {
 public:
  // What is not held yet. Forgotten when there are too many already: the table takes at most 128 MiB.
  void Insert(TaskSetHash hash);
  bool Holds(TaskSetHash hash) const;
  void Clear() { *this = TaskSets(); }

 private:
  void Grow();

  std::vector<TaskSetHash> slots_;  // open addressing; all zeros: empty
  size_t count_ = 0;
};

}  // namespace snug::memory
