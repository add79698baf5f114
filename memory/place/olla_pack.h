// Turns sequences of buffers into plans: OLLA reads the solver's addresses like that, and falls back on it.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "memory/problem.h"

namespace snug::core::memory {

// Tells whether both are needed at once at some position. Gaps do not count.
bool LiveTogether(const Buffer& a, const Buffer& b);

// Places each buffer in turn directly above the highest of those before it that are live together with it; fixed ones
// go where they must. In-place pairs are not used. O(n^2).
Plan PackUpwards(const Problem& problem, absl::Span<const int32_t> sequence);

// Places each buffer in turn at the lowest address where it fits beside those before it; fixed ones go first. O(n^2 log
// n).
Plan PackLowest(const Problem& problem, absl::Span<const int32_t> sequence);

// Does PackLowest with the largest buffers first.
Plan PackLargestFirst(const Problem& problem);

}  // namespace snug::core::memory
