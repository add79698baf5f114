// Exact placement. Greedy offsets come first, then branch and bound (search.h) under ever smaller capacities, from
// several preferences and with growing effort, until the total is proven or the work is spent; then moves within the
// best list.
#pragma once

#include <absl/status/statusor.h>

#include "memory/place/progress.h"
#include "memory/planner.h"

namespace snug::core::memory {

// The work limit counts items and sections that the search looks at; the default takes some seconds. Without a capacity
// it looks for the least total; with one, for any that is no larger.
absl::StatusOr<Placement> PlaceExact(const Problem& problem, const PlannerOptions& options);

// Runs as a stage of another planner: improves until it is done or `work` is spent.
void ImproveBySearch(const PlannerOptions& options, int64_t work, Progress* progress);

}  // namespace snug::core::memory
