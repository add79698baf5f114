// Greedy orders: one sweep over the tasks, in O(edges log n).
//
// Every sweep takes a task at once if it lowers the live bytes (or leaves them as they are) and fits below `bound`.
// That loses nothing: if f(S + t) <= f(S), any order from S on stays below the bound with t moved to its front, since f
// is submodular. The same holds backwards, so a sweep that otherwise follows a given order never raises its peak.
#pragma once

#include <cstdint>
#include <limits>

#include "memory/order/live_sweep.h"
#include "memory/order/task_net.h"

namespace snug::core::memory {

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
