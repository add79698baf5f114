// Puts a body's nodes into the graph around it, once for each round or branch.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"

namespace snug::core {

class BodyCopier {
 public:
  // Nodes go to the builder's insertion point. `body` has no control flow in it.
  BodyCopier(GraphBuilder& builder, const Graph& body) : builder_(builder), body_(body) {}

  // Copies the nodes that the outputs with these numbers need. `feeds` has what the body's inputs stand for. Returns
  // the outputs, in the sequence of the numbers. `name` comes before the names of the nodes, with `part` behind it,
  // and gives them random numbers of their own.
  std::vector<ValueId> Copy(const std::vector<ValueId>& feeds, const std::vector<int>& outputs, const std::string& name,
                            const std::string& part = "");

  // Tells whether an output depends on an input.
  bool Depends(int output, int input) const;

 private:
  // By node id, whether these outputs need it.
  std::vector<bool> NeededFor(const std::vector<int>& outputs) const;

  GraphBuilder& builder_;
  const Graph& body_;
};

}  // namespace snug::core
