// The default orderer: the order of least peak that can be found within the work limit, and a bound that says how far
// from the optimum it can be.
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::memory {

// The report's bound holds for all legal orders.
absl::StatusOr<Ordering> OrderBest(const Tasks& tasks, const PlannerOptions& options);

// Its first stage alone, greedy orders, in O(edges log n): the bound is a task's inputs and outputs.
absl::StatusOr<Ordering> OrderGreedy(const Tasks& tasks, const PlannerOptions& options);

}  // namespace snug::memory
