// Puts the bodies of a branch into the graph around it, and chooses what comes out.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

// Adds the nodes at the builder's insertion point. All bodies run. `bodies` have no branches in them. Returns what
// stands for the node's outputs.
absl::StatusOr<std::vector<ValueId>> SpreadBranch(GraphBuilder& builder, NodeId branch,
                                                  const std::vector<Graph>& bodies, bool training);

}  // namespace snug::core
