// Local search over lists: it moves one item at a time within the sequence in which items are placed.
#pragma once

#include <cstdint>

#include "memory/place/progress.h"
#include "memory/planner.h"

namespace snug::core::memory {

// Improves the part that decides the total. Every part must have offsets. `work` counts neighbours looked at and is
// dealt out to the chains before they begin, so that the result does not depend on threads.
void ImproveByMoves(const PlannerOptions& options, int64_t work, Progress* progress);

}  // namespace snug::core::memory
