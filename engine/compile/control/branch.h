// What becomes of a branch: all its bodies run and what comes out is chosen, or only the body that is taken runs.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/compile/control/loop_rule.h"
#include "engine/graph/graph.h"
#include "ops/graph_builder.h"
#include "ops/registry.h"

namespace snug::core {

// Whether only the body that is taken is to run. `bodies` are in normal form.
bool RunsTakenBodyAlone(const Graph& graph, NodeId branch, const std::vector<Graph>& bodies, const OpRegistry& registry,
                        LoopRule rule);

// Both add nodes at the builder's insertion point and return what stands for the node's outputs.

// Puts all bodies into the graph around the branch, and chooses what comes out.
absl::StatusOr<std::vector<ValueId>> SpreadBranch(GraphBuilder& builder, NodeId branch,
                                                  const std::vector<Graph>& bodies, bool training);

// Makes each body a rolled loop that runs a round if it is taken, and none otherwise. Their carries go from one to the
// next, so what comes out of the last one is what the body that is taken has put in. All that holds for loops holds for
// them: what the gradient reads is stashed, and the gradient of a body that is not taken does not run either. The loops
// run one after the other, so their bodies share memory.
absl::StatusOr<std::vector<ValueId>> RunTakenBody(GraphBuilder& builder, NodeId branch, std::vector<Graph> bodies);

}  // namespace snug::core
