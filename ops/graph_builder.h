// Adds nodes to a Graph: checks the ports, runs shape inference, and names what is wrong. The importer, the backward
// stage, passes and the ops' own gradients all add nodes through it, so a Graph is typed at every moment.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/node_types.h"
#include "ops/registry.h"

namespace snug::core {

// Checks the ports and runs the op's infer, which fills types->outputs (their layouts follow the op's rule).
absl::Status InferTypes(const OpDef& op, NodeTypes* types);

// Returns the types around a node of the graph.
NodeTypes TypesOf(const Graph& graph, const Node& node);
// Returns the cost of a node: the op's, or the default.
Cost CostOf(const OpDef& op, const NodeTypes& types);

class GraphBuilder {
 public:
  GraphBuilder(const OpRegistry& registry, Graph* graph) : registry_(registry), graph_(*graph) {}

  const OpRegistry& registry() const { return registry_; }
  Graph& graph() { return graph_; }

  // Adds a node and fills in spec.output_types. The error has no location; NodeError adds it.
  absl::StatusOr<NodeId> Add(NodeSpec spec);

  // Adds a node right before `before` that does what `like` did: its location, phase, random numbers and forward node
  // are that one's. Returns the values that it gives. `like` may be a node of this graph; no reference to one is good
  // afterwards, because adding moves them all.
  absl::StatusOr<std::vector<ValueId>> AddBefore(NodeId before, const Node& like, NodeSpec spec);

 private:
  const OpRegistry& registry_;
  Graph& graph_;
};

// Returns `models/mlp.pbtxt:4:9: layer "fc1" (dense): <message>`.
absl::Status NodeError(const SourceLoc& loc, absl::string_view name, absl::string_view op, const absl::Status& status);

}  // namespace snug::core
