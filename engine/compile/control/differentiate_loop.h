// The gradient of a loop is a loop.
//
// It runs the rounds from the last to the first. Its body is the gradient of the loop's body:
//
//   * the gradient of a carry is a carry, which goes the other way; those of slices are collected;
//   * a value that all rounds read (a weight) has a carry that adds up what each round gives, in float32 if the values
//     are bfloat16. Of a dense layer's weights, what flows back and what the layer read are collected instead, and one
//     product after the loop does what a product for each round would;
//   * what the rounds compute and their gradients read is stashed: the loop collects it, one round after the other, in
//   an
//     output of its own, and the gradient's rounds find it there. It is a value like any other, planned with all
//     others. Values that cost nothing are made again instead: views, constants.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

// Adds the gradient of a loop in normal form at the builder's insertion point, and stashes to the loop. `output_grads`
// are of the loop's outputs, invalid where nothing flows back; `wanted` says of which inputs a gradient is. Returns
// those, by input; invalid where there is no path.
absl::StatusOr<std::vector<ValueId>> DifferentiateLoop(GraphBuilder& builder, NodeId loop,
                                                       absl::Span<const ValueId> output_grads,
                                                       const std::vector<bool>& wanted);

}  // namespace snug::core
