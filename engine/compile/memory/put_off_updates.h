// Moves gradients of small parameters, within a finished plan, to where nothing needs their bytes for a while, so that
// their updates can wait for each other and be asked for in one launch (schedule/launch_groups.h).
//
// Lifetimes, the order and the size of the arena stay: a gradient that has died may lie on, because no buffer that
// comes later was put there. Updates are taken in the order's sequence, and as many as can wait for the last of them
// become a group, which is what the launches then find by themselves. On several streams nobody waits for bytes who did
// not before: a gradient only moves among buffers that its own stream alone uses.
#pragma once

#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/pipeline.h"

namespace snug::core {

// O(u g n) for u updates in groups of g, and n buffers; O(n log n) more for each that is moved.
void PutOffUpdates(const Compiled& compiled, int streams, MemoryPlan* plan);

}  // namespace snug::core
