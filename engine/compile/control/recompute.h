// Splits a loop in two, so that its gradient can compute rounds anew instead of finding all of them stashed.
//
// T rounds become T / k rounds of a loop around, each of which runs k rounds of the loop that was. Of the outer one
// only what is carried from chunk to chunk is stashed: its gradient runs the chunk again, and then the gradient of
// that. So memory is T / k times the carries, and the stash of k rounds; the forward pass is computed twice. With k
// about the square root of T both are small (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016).
//
// What captured values' gradients are added up from is associated by chunks, so their last bits are others than
// without.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "engine/compile/control/loop_rule.h"
#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

// Splits a loop in normal form into chunks of about `rounds` rounds (or kSquareRoot): the divisor of their number that
// is nearest. Says in `choice` how, or why not. `outputs` are what stands for the node's outputs; returns what does
// now.
absl::StatusOr<std::vector<ValueId>> SplitForRecomputation(GraphBuilder& builder, NodeId loop, int64_t rounds,
                                                           LoopChoice& choice, std::vector<ValueId> outputs);

}  // namespace snug::core
