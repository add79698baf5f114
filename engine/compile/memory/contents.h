// Knows what the bytes of every value are, from the Graph and the ops alone: bytes that a kernel writes for it, bytes
// of an input or a Variable, or, behind nodes that run nothing, parts of those. It is for the verifier, so it does not
// use what views.h and tasks.h made of the same Graph.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

class Contents {
 public:
  // Bytes [begin, end) of a value are the bytes of `root` from byte `from` on.
  struct Part {
    int64_t begin = 0, end = 0;
    ValueId root;  // a value that a kernel writes, an input, or the content of a Variable
    int64_t from = 0;
  };

  // `runs` says by node id whether a Step runs its kernel. The error names a node that must run but does not. The graph
  // must outlive this.
  static absl::StatusOr<Contents> Create(const Graph& graph, const OpRegistry& registry, const std::vector<char>& runs);

  // Returns the parts in sequence and without holes. Empty when the value has no bytes, or some of them come from
  // nowhere.
  const std::vector<Part>& Of(ValueId value) const { return parts_[static_cast<size_t>(value.index)]; }

  // Counts how often program order has changed the Variable before `node`, or in the whole step.
  int32_t VersionAt(VariableId variable, NodeId node) const;
  int32_t LastVersion(VariableId variable) const {
    return static_cast<int32_t>(changes_[static_cast<size_t>(variable.index)].size());
  }

 private:
  explicit Contents(const Graph& graph);
  absl::Status AddUnrun(const Node& node, const OpDef& op);
  std::vector<Part>& parts(ValueId value) { return parts_[static_cast<size_t>(value.index)]; }

  const Graph& graph_;
  std::vector<std::vector<Part>> parts_;       // indexed by value id
  std::vector<int32_t> position_;              // indexed by node id: its place in program order
  std::vector<std::vector<int32_t>> changes_;  // indexed by Variable: the places of the nodes that change it
};

// Tells whether the node's kernel writes the Variable at this input.
bool Mutates(const OpDef& op, size_t input);

}  // namespace snug::core
