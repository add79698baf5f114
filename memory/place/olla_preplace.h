// Buffers that get their offsets before the solver sees the rest: they become fixed. Where some are fixed already, both
// functions change nothing.
#pragma once

#include "memory/problem.h"

namespace snug::memory {

// Those that live throughout, as the weights do, lie at the bottom: nothing could use what is below or between them. So
// no optimum is lost; with alignments that differ it could be, and nothing is changed.
Problem PreplaceConstant(Problem problem);

// Section 4.5 of OLLA. The longest lifetime at the bottom, upon it the longest within that one, and so on: activations
// nest like that, as the backward pass reads last what the forward pass wrote first. Buffers that live at one position
// only are left to the solver.
Problem PreplacePyramid(Problem problem);

}  // namespace snug::memory
