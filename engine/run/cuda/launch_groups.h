// Finds Steps of one stream that are asked for in one launch (KernelRow::together), for a plan as it is.
//
// A Step that can join others is put off as long as what runs meanwhile leaves its bytes alone, by the one rule of
// engine/base/conflict.h. Steps that wait at the same time, and are alike, run as one. So nothing lives longer than the
// plan has it, and every result has the same bits. This is for the updates of small parameters, of which networks have
// many. It is not for large ones: there a launch is a small part, and gradients are best read while a cache has them.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/compile/executable.h"

namespace snug::core {

// Returns groups, with every Step in exactly one. Groups of several Steps run together, all others alone. Steps that
// conflict come in the sequence in which they were given.
std::vector<std::vector<size_t>> GroupLaunches(const std::vector<Step>& steps);

}  // namespace snug::core
