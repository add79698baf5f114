// The default orderer finds the order of least peak that it can within the work limit, and a bound that says how far
// from the optimum that can be.
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::core::memory {

// The report's bound holds for all legal orders.
absl::StatusOr<Ordering> OrderBest(const Tasks& tasks, const PlannerOptions& options);

// Runs the first stage of OrderBest alone: greedy orders, in O(edges log n). The bound is the largest sum of one task's
// inputs and outputs.
absl::StatusOr<Ordering> OrderGreedy(const Tasks& tasks, const PlannerOptions& options);

}  // namespace snug::core::memory
