// Sweeps over the tasks, and the greedy orders that they give (greedy.cc).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "memory/order/task_net.h"

namespace snug::core::memory {

enum class Direction { kForward, kBackward };

// Builds an order from its first task on, or from its last one back, and knows at every moment how each task that may
// come next would change the live bytes. A whole sweep takes O(edges) steps.
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

// Greedy orders: one sweep over the tasks, in O(edges log n).
//
// Every sweep takes a task at once if it lowers the live bytes (or leaves them as they are) and fits below `bound`.
// That loses nothing: if f(S + t) <= f(S), any order from S on stays below the bound with t moved to its front, since f
// is submodular. The same holds backwards, so a sweep that otherwise follows a given order never raises its peak.

// Says which task is taken when none is free.
enum class TaskPreference {
  kLeastDelta,  // the least growth of live bytes; of equal ones the least rise
  kLeastRise,   // the fewest bytes while it runs
  kNewest,      // what became ready last, that is, depth first
};

constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

TaskOrder GreedySweep(const TaskNet& net, Direction direction, TaskPreference preference, int64_t bound = kNoBound);

// Follows `order` where no task is free.
TaskOrder FollowOrder(const TaskNet& net, Direction direction, const TaskOrder& order, int64_t bound = kNoBound);

// Follows `order` to and fro, below its own peak, for as long as its peak sinks.
TaskOrder Tighten(const TaskNet& net, TaskOrder order);

}  // namespace snug::core::memory
