// What the bytes of every value are, by the Graph and the ops alone: those that a kernel writes for it, those of an
// input or of a Variable, or, where a node between them runs nothing, parts of such. For the verifier: it does not look
// at what views.h and tasks.h made of the same Graph.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {

class Contents {
 public:
  // Bytes [begin, end) of a value are those of `root` from byte `from` on.
  struct Part {
    int64_t begin = 0, end = 0;
    ValueId root;  // written by a kernel, an input, or the content of a Variable
    int64_t from = 0;
  };

  // `runs`, by node id: whether a Step runs its kernel. The error names a node that must run, and does not. The graph
  // must outlive it.
  static absl::StatusOr<Contents> Create(const Graph& graph, const OpRegistry& registry, const std::vector<char>& runs);

  // In sequence and without holes; empty: it has no bytes, or not all of them come from somewhere.
  const std::vector<Part>& Of(ValueId value) const { return parts_[static_cast<size_t>(value.index)]; }

  // How often program order has had the Variable changed before `node`; or in the whole step.
  int32_t VersionAt(VariableId variable, NodeId node) const;
  int32_t LastVersion(VariableId variable) const {
    return static_cast<int32_t>(changes_[static_cast<size_t>(variable.index)].size());
  }

 private:
  explicit Contents(const Graph& graph);
  absl::Status AddUnrun(const Node& node, const OpDef& op);
  std::vector<Part>& parts(ValueId value) { return parts_[static_cast<size_t>(value.index)]; }

  const Graph& graph_;
  std::vector<std::vector<Part>> parts_;       // by value id
  std::vector<int32_t> position_;              // by node id: its place in program order
  std::vector<std::vector<int32_t>> changes_;  // by Variable: the places of those that change it
};

// Whether the node's kernel writes the Variable that is this input of its.
bool Mutates(const OpDef& op, size_t input);

}  // namespace snug
