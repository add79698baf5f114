// Gives some buffers their offsets before the solver sees the rest: they become fixed. Where some are fixed already,
// both functions change nothing.
#pragma once

#include "memory/problem.h"

namespace snug::core::memory {

// Puts buffers that live throughout, as the weights do, at the bottom: nothing could use what is below or between them,
// so no optimum is lost. With alignments that differ it could be, so then nothing is changed.
Problem PreplaceConstant(Problem problem);

// Section 4.5 of OLLA. The longest lifetime lies at the bottom, upon it the longest one within that, and so on.
// Activations nest like that, because the backward pass reads last what the forward pass wrote first. Buffers that live
// at one position only are left to the solver.
Problem PreplacePyramid(Problem problem);

}  // namespace snug::core::memory
