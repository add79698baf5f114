// The independent check of a Plan. It shares no code with any planner.
#pragma once

#include <absl/status/status.h>

#include "memory/problem.h"

namespace snug::core::memory {

// Checks that every offset is aligned, inside the arena, and where it is fixed. No two buffers that are live at once
// may overlap, except an output written over its input as the problem allows. It sweeps over time with an ordered set
// of live ranges: O(n log n). The error names both buffers.
absl::Status Verify(const Problem& problem, const Plan& plan);

}  // namespace snug::core::memory
