// The backward stage: the explicit gradient graph, in the same Graph. Pruned to what the objectives reach and the
// wanted values need; where a value is read several times its gradients are summed by one inserted `add_n`, in forward
// use order; the forward pass gets no split nodes.
#pragma once

#include <absl/status/statusor.h>

#include <unordered_map>
#include <vector>

#include "ops/graph_builder.h"

namespace snug {

struct BackwardOptions {
  std::vector<ValueId> wanted;  // variables' values, graph inputs, or any value in between
  // A wanted value that no objective depends on: absent from the result, or a node of zeros.
  enum class NoPath : uint8_t { kAbsent, kZeros } no_path = NoPath::kAbsent;
};

// Adds backward nodes for graph.objectives (the gradient of the sum of all their elements); returns the gradient of
// each wanted value. An op without a gradient on the way is an error that names its node.
absl::StatusOr<std::unordered_map<ValueId, ValueId>> AddBackward(GraphBuilder& builder, const BackwardOptions& options);

// The values of all parameters that are trained, in creation order.
std::vector<ValueId> TrainedParameters(const Graph& graph);

}  // namespace snug
