// Unrolls one loop.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

// Adds the rounds of a loop at the builder's insertion point. `body` has no control flow in it. Returns what stands for
// the node's outputs.
absl::StatusOr<std::vector<ValueId>> UnrollLoop(GraphBuilder& builder, NodeId loop, const Graph& body, bool training);

}  // namespace snug::core
