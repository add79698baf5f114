// Local search over lists: the sequence in which buffers are placed one after the other, an item moved at a time.
#pragma once

#include <cstdint>

#include "memory/place/progress.h"
#include "memory/planner.h"

namespace snug::memory {

// Improves on what is known of the part that decides the total; it needs offsets of every part. `work` counts
// neighbours looked at, and is dealt out to chains before they begin: the result does not depend on threads.
void ImproveByMoves(const PlannerOptions& options, int64_t work, Progress* progress);

}  // namespace snug::memory
