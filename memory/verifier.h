// The independent check of a Plan: it shares no code with any planner.
#pragma once

#include <absl/status/status.h>

#include "memory/problem.h"

namespace snug::memory {

// Every offset is aligned and inside the arena, and no two buffers that are live at once overlap. Sweeps over time with
// an ordered set of live ranges: O(n log n). The error names both buffers.
absl::Status Verify(const Problem& problem, const Plan& plan);

}  // namespace snug::memory
