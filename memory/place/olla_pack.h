// Plans from sequences of buffers: how OLLA reads the solver's addresses, and what it falls back on.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "memory/problem.h"

namespace snug::memory {

// Whether both are needed at once somewhere: lifetimes less gaps.
bool LiveTogether(const Buffer& a, const Buffer& b);

// Each buffer in turn directly above the highest of those before it that are live together with it; fixed ones where
// they must be. In-place options are not used. O(n^2).
Plan PackUpwards(const Problem& problem, absl::Span<const int32_t> sequence);

// Each buffer in turn at the lowest address where it fits beside those before it; fixed ones first. O(n^2 log n).
Plan PackLowest(const Problem& problem, absl::Span<const int32_t> sequence);

// PackLowest, the largest first.
Plan PackLargestFirst(const Problem& problem);

}  // namespace snug::memory
