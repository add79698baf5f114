// What OLLA places without the solver: it turns sequences of buffers into plans, as which it reads the solver's
// addresses and on which it falls back, and gives some buffers their offsets beforehand.
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

// The two below give some buffers their offsets before the solver sees the rest: they become fixed. Where some are
// fixed already, both change nothing. This one puts buffers that live throughout, as the weights do, at the bottom:
// nothing could use what is below or between them, so no optimum is lost. With alignments that differ it could be, so
// then nothing is changed.
Problem PreplaceConstant(Problem problem);

// Section 4.5 of OLLA. The longest lifetime lies at the bottom, upon it the longest one within that, and so on.
// Activations nest like that, because the backward pass reads last what the forward pass wrote first. Buffers that live
// at one position only are left to the solver.
Problem PreplacePyramid(Problem problem);

}  // namespace snug::core::memory
