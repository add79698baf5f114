// The backward stage: adds the explicit gradient graph to the same Graph. It only has what the objectives reach and the
// wanted values need. Where a value is read several times, one inserted `add_n` sums its gradients in forward use
// order; the forward pass gets no extra nodes.
#pragma once

#include <absl/status/statusor.h>

#include <unordered_map>
#include <vector>

#include "ops/graph_builder.h"

namespace snug::core {

struct BackwardOptions {
  std::vector<ValueId> wanted;  // values of Variables, graph inputs, or any value in between
  // A wanted value that no objective depends on is either absent from the result or gets a node of zeros.
  enum class NoPath : uint8_t { kAbsent, kZeros } no_path = NoPath::kAbsent;
};

// Adds backward nodes for graph.objectives (the gradient of the sum of all their elements) and returns the gradient of
// each wanted value. An op on the way without a gradient is an error that names its node.
absl::StatusOr<std::unordered_map<ValueId, ValueId>> AddBackward(GraphBuilder& builder, const BackwardOptions& options);

// Returns the values of all parameters that are trained, in creation order.
std::vector<ValueId> TrainedParameters(const Graph& graph);

}  // namespace snug::core
