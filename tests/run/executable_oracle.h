// Brute-force answers about an Executable, which know nothing of lifetimes, buffers and views: only kernels, and the
// bytes that they are pointed to.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/compile/pipeline.h"

namespace snug::core::test {

// Runs the Steps in their Order on tokens instead of numbers, one for each 64 bytes: what a kernel writes is a token of
// its own made of the node's name, the place in its output, and all tokens that it reads. (Where it writes over what it
// reads and may not, it reads garbage.) So any byte that is not the right one at the right time shows in everything
// that depends on it. Gives what is left: fetched values, inputs that are kept, Variables. Nullopt: something lies
// outside of its arena, on no cache line, or in a block that is not taken.
std::optional<std::vector<uint64_t>> RunOnTokens(const Compiled& compiled);

// Every two Steps of which one writes bytes that the other uses, one after the other: by the schedule's streams and
// waits, and, where there is no schedule, through the Steps' declared accesses. Every pair is looked at.
bool EveryOverlapIsOrdered(const Compiled& compiled);

}  // namespace snug::core::test
