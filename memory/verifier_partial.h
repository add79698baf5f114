// The independent check of a plan for a partial order: it shares no code with any planner.
#pragma once

#include <absl/status/status.h>

#include "memory/partial_problem.h"

namespace snug::memory {

// Every offset is aligned and inside the arena; buffers that a schedule may have in use at once, and those of different
// kinds, do not overlap; companions and views lie where they must. Works out for itself what reaches what. O(n^2) pairs
// and n^2 bits.
absl::Status VerifyPartial(const PartialProblem& problem, const Plan& plan);

}  // namespace snug::memory
