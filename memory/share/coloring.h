// Strategy `coloring`: the conflict graph of the buffers, coloured; buffers of one colour share a block. The largest
// buffer first, each into the tightest block in which it conflicts with nobody: every block has its size from its first
// member, and none ever grows. O(n x blocks x log n).
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::memory {

absl::StatusOr<Placement> PlaceColoring(const Problem& problem, const PlannerOptions& options);

}  // namespace snug::memory
