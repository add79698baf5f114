// Greedy orders: one sweep over the tasks, in O(edges log n).
//
// Every sweep takes a task at once that lowers the live bytes (or leaves them) and fits below `bound`. That loses
// nothing: if f(S + t) <= f(S), any order from S on stays below the bound with t moved to its front, since f is
// submodular. Backwards the same holds, so a sweep that otherwise follows a given order never raises its peak.
#pragma once

#include <cstdint>
#include <limits>

#include "memory/order/live_sweep.h"
#include "memory/order/task_net.h"

namespace snug::memory {

// What is taken when nothing is free.
enum class Preference {
  kLeastDelta,  // least growth; of equal ones the least rise
  kLeastRise,   // fewest bytes while it runs
  kNewest,      // depth first: what became ready last
};

constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

TaskOrder GreedySweep(const TaskNet& net, Direction direction, Preference preference, int64_t bound = kNoBound);

// Follows `order` where nothing is free.
TaskOrder FollowOrder(const TaskNet& net, Direction direction, const TaskOrder& order, int64_t bound = kNoBound);

// Follows `order` to and fro, below its own peak, until its peak sinks no more.
TaskOrder Tighten(const TaskNet& net, TaskOrder order);

}  // namespace snug::memory
