// How small an arena can be at best.
#pragma once

#include <cstdint>

#include "memory/problem.h"

namespace snug::memory {

// No legal Plan of `problem` has a smaller arena: the largest sum of sizes that are live at one position, gaps left
// out, each size rounded up as the alignments force it (all but the topmost's). O(n log n).
int64_t LowerBound(const Problem& problem);

}  // namespace snug::memory
