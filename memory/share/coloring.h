// Strategy `coloring`: it colours the conflict graph of the buffers, and buffers of one colour share a block. It takes
// the largest buffer first and gives each the smallest block in which nothing conflicts with it. A block's first member
// is its largest, so no block ever grows. O(n x blocks x log n).
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::core::memory {

absl::StatusOr<Placement> PlaceColoring(const Problem& problem, const PlannerOptions& options);

}  // namespace snug::core::memory
