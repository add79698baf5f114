// Puts a body's nodes into another graph, once for each round or branch.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

class BodyCopier {
 public:
  // Nodes go to the builder's insertion point.
  BodyCopier(GraphBuilder& builder, const Graph& body) : builder_(builder), body_(body) {}

  // Copies the nodes that the outputs with these numbers need. `feeds` has what the body's inputs stand for. Returns
  // the outputs, in the sequence of the numbers. `name` comes before the names of the nodes; `shift` is added to the
  // keys of their random numbers.
  std::vector<ValueId> Copy(const std::vector<ValueId>& feeds, const std::vector<int>& outputs, const std::string& name,
                            uint64_t shift = 0);

  // Tells whether an output depends on an input.
  bool Depends(int output, int input) const;

 private:
  // By node id, whether these outputs need it.
  std::vector<bool> NeededFor(const std::vector<int>& outputs) const;

  GraphBuilder& builder_;
  const Graph& body_;
};

// Describes a copy of a node of `from` whose inputs are those that `copies` has, by value id.
NodeSpec CopyOf(const Graph& from, const Node& node, const std::vector<ValueId>& copies);
// Adds it, and notes its outputs in `copies`.
NodeId AddCopy(const Graph& from, const Node& node, NodeSpec spec, Graph& to, std::vector<ValueId>& copies);
// Gives a node one output more, after those that it has.
ValueId AddOutput(Graph& graph, NodeId id, std::string name, ValueType type);

}  // namespace snug::core
