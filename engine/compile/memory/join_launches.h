// Changes a finished plan so that more small nodes can be asked for in one launch (schedule/launch_groups.h). The size
// of the arena stays: buffers lie longer than they must where there is room for that (plan_room.h).
#pragma once

#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/pipeline.h"

namespace snug::core {

// Moves casts of small parameters forward in the order, to one that comes before them: their results lie from there on.
// It is for plans of one stream: on several another order would be other streams. O(c n) for c casts and n buffers.
void BringCastsForward(const Compiled& compiled, MemoryPlan* plan);

// Moves gradients of small parameters to where nothing needs their bytes for a while, so that their updates can wait
// for each other. Updates are taken in the order's sequence, and as many as can wait for the last of them become a
// group, which is what the launches then find by themselves. The order stays. O(u g n) for u updates in groups of g,
// and n buffers; O(n log n) more for each that is moved.
void PutOffUpdates(const Compiled& compiled, int streams, MemoryPlan* plan);

}  // namespace snug::core
