// Builds an order from its first task on, or from its last one back, and knows at every moment how each task that may
// come next would change the live bytes. A whole sweep takes O(edges) steps.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/order/task_net.h"

namespace snug::core::memory {

enum class Direction { kForward, kBackward };

class LiveSweep {
 public:
  LiveSweep(const TaskNet& net, Direction direction);

  // The bytes that are live between the taken tasks and the others.
  int64_t live() const { return live_; }
  // By how much live() changes when `task` is taken.
  int64_t Delta(int32_t task) const { return delta_[static_cast<size_t>(task)]; }
  // live() + Rise(task) bytes are in use while `task` runs, if it is taken next.
  int64_t Rise(int32_t task) const {
    const int64_t write = net_.write_bytes[static_cast<size_t>(task)];
    return forward_ ? write : write + delta_[static_cast<size_t>(task)];
  }
  bool Ready(int32_t task) const { return waiting_for_[static_cast<size_t>(task)] == 0; }
  bool Taken(int32_t task) const { return waiting_for_[static_cast<size_t>(task)] < 0; }

  // Takes `task`, which must be ready. changed() then lists what became ready, and the ready tasks whose Delta sank.
  void Take(int32_t task);
  const std::vector<int32_t>& changed() const { return changed_; }
  // Undoes the last Take that was not undone, which took `task`. Only for forward sweeps.
  void Return(int32_t task);

 private:
  void TakeForward(int32_t task);
  void TakeBackward(int32_t task);
  void Lower(int32_t task, int64_t bytes);

  const TaskNet& net_;
  const bool forward_;
  int64_t live_;
  std::vector<int64_t> delta_;
  std::vector<int32_t> waiting_for_;  // by task: how many tasks must be taken before it; -1 once it is taken
  struct Readers {
    int32_t left = 0;   // how many are not taken
    int32_t mixed = 0;  // the exclusive or of their numbers: when one is left, it is that one
  };
  std::vector<Readers> readers_;  // indexed by value
  std::vector<int32_t> changed_;
};

}  // namespace snug::core::memory
