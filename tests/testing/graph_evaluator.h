// Evaluates a graph node after node, each value with its own bytes: independent of the real compiler and executor, so
// that they can be tested against it.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"
#include "tests/testing/node_runner.h"

namespace snug::core::test {

struct EvaluateOptions {
  KernelChoice choice = KernelChoice::kPlain;
  int threads = 1;
};

// The values, indexed by ValueId. `feeds` gives the graph's inputs (and Variables, whose mutations are kept). A node
// gets layouts as a layout pass would give them: all of an op's inputs of full rank channels-last if one of them is and
// the op takes it, plain otherwise; the types of the graph itself may say either.
absl::StatusOr<std::vector<Tensor>> EvaluateGraph(const OpRegistry& registry, const Graph& graph,
                                                  const std::map<ValueId, Tensor>& feeds,
                                                  const EvaluateOptions& options = {});

// Runs one node and puts its outputs into `values`, which is indexed by ValueId and has its inputs.
absl::Status EvaluateNode(const OpRegistry& registry, const Graph& graph, NodeId id, const EvaluateOptions& options,
                          std::vector<Tensor>* values);

}  // namespace snug::core::test
