// The independent check of a Plan: it shares no code with any planner.
#pragma once

#include <absl/status/status.h>

#include "memory/problem.h"

namespace snug::memory {

// Every offset is aligned, inside the arena and where it is fixed; no two buffers that are live at once overlap, but
// for an output written over its input as the problem allows. Sweeps over time with an ordered set of live ranges: O(n
// log n). The error names both buffers.
absl::Status Verify(const Problem& problem, const Plan& plan);

}  // namespace snug::memory
