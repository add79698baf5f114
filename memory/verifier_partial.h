// The independent check of a plan for a partial order. It shares no code with any planner.
#pragma once

#include <absl/status/status.h>

#include "memory/partial_problem.h"

namespace snug::core::memory {

// Checks that every offset is aligned and inside the arena, that buffers that a schedule may have in use at once and
// those of different kinds do not overlap, and that companions and views lie where they must. It works out for itself
// what reaches what. O(n^2) pairs and n^2 bits.
absl::Status VerifyPartial(const PartialProblem& problem, const Plan& plan);

}  // namespace snug::core::memory
