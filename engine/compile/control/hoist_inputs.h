// Takes out of a loop's body what does not depend on its carries (hoist_inputs.cc). It is a pass over loops as they are
// imported; of a loop whose gradient computes rounds anew, it is done for the rounds of a chunk, which see to it.
#pragma once

#include <absl/status/status.h>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

// `loop` is a node of a chunk's body: a loop in normal form, all of whose rounds run.
absl::Status HoistFromChunk(Graph& chunk, const OpRegistry& registry, NodeId loop);

}  // namespace snug::core
