// Greedy placement: tries many sequences, into the best place or the first place, and keeps the best result.
#pragma once

#include <absl/status/statusor.h>

#include "memory/place/progress.h"
#include "memory/planner.h"

namespace snug::core::memory {

// The work limit counts neighbours looked at; by default every sequence is tried. The bound is the max load. Each
// sequence takes O(n log n + pairs of buffers that are live together), or O(n log n) where there are too many pairs.
absl::StatusOr<Placement> PlaceOffset(const Problem& problem, const PlannerOptions& options);

// Runs as the first stage of another planner.
void ImproveByLists(const PlannerOptions& options, Progress* progress);

}  // namespace snug::core::memory
