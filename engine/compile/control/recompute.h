// Splits a loop in two, so that its gradient can compute rounds anew instead of finding all of them stashed.
//
// T rounds become T / k rounds of a loop around, each of which runs k rounds of the loop that was: a chunk. What is
// left of T is a last chunk, which is shorter, and a loop of one round by itself. Of the outer loops only what is
// carried from chunk to chunk is stashed: their gradients run a chunk again, and then the gradient of that. So memory
// is T / k times the carries, and the stash of k rounds; the forward pass is computed twice. With k about the square
// root of T both are small (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016).
//
// A chunk reads its part of what is scanned, and collects into its part, where these lie: a slice of the outer loop has
// the axis (PlacesOfSlice). Before the last chunk, the outer loop leaves the end of what is scanned to that.
//
// What captured values' gradients are added up from is associated by chunks, so their last bits are others than
// without.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <vector>

#include "engine/compile/control/loop_rule.h"
#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

struct ChunkOptions {
  int64_t rounds = 0;  // of a chunk, or kSquareRoot
  bool hoist = false;  // what needs no carry is done for all rounds of a chunk at once (hoist_inputs.h)
};

// How many rounds a chunk has that is to have `wanted` of `rounds` (or kSquareRoot): as many as are wanted, or, for the
// square root, a divisor if there is one near, so that no shorter chunk is left.
int64_t ChunkOf(int64_t rounds, int64_t wanted);

// Splits a loop in normal form into chunks. Says in `choice` how, or why not. `outputs` are what stands for the node's
// outputs; returns what does now.
absl::StatusOr<std::vector<ValueId>> SplitForRecomputation(GraphBuilder& builder, NodeId loop,
                                                           const ChunkOptions& options, LoopChoice& choice,
                                                           std::vector<ValueId> outputs);

// The names of the loops around chunks: that of the loop, and what comes behind it. The second is of the last chunk,
// where that is shorter.
inline constexpr absl::string_view kChunks = "/chunks", kLastChunk = "/last_chunk";

}  // namespace snug::core
