// Moves what ends a loop at run time into its body: a count, a condition, or both.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::proto {
class LoopNode;
class NormalLoop;
}  // namespace snug::proto

namespace snug::core {

// Changes the node's body and inputs, and `options`, which become those of the node; `end` has those with which it was
// imported. `body` has loops in normal form only. Returns what stands for the node's outputs behind it: the outputs
// themselves, or NaN where the loop would go on beyond its bound.
absl::StatusOr<std::vector<ValueId>> MoveEndIntoBody(GraphBuilder& builder, NodeId loop, const Graph& body,
                                                     bool training, const proto::LoopNode& end,
                                                     proto::NormalLoop& options);

}  // namespace snug::core
