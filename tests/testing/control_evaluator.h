// Evaluates a graph that still has its loops and branches: round by round, by plain kernels, and only the branch that
// is taken. It shares nothing with the compiler's unrolling, which is tested against it.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"
#include "tests/testing/tensor.h"

namespace snug::core::test {

// Returns the values, indexed by ValueId. `feeds` gives the graph's inputs and Variables.
absl::StatusOr<std::vector<Tensor>> EvaluateControl(const OpRegistry& registry, const Graph& graph,
                                                    const std::map<ValueId, Tensor>& feeds);

}  // namespace snug::core::test
