// Bounds how small an arena can be at best.
#pragma once

#include <cstdint>

#include "memory/problem.h"

namespace snug::core::memory {

// No legal Plan of `problem` has a smaller arena than this: the largest sum of sizes that are live at one position.
// Gaps do not count, and each size but the topmost's is rounded up as the alignments force it. O(n log n).
int64_t LowerBound(const Problem& problem);

}  // namespace snug::core::memory
