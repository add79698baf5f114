// Finds which values lie within the bytes of others, so that the nodes between them have nothing to do: views by their
// op (reshape, flatten, ...), parts that are one range of what they are cut from (slice, split), and parts that are
// written where the whole needs them (concat). The latter two may be copied instead, because a view keeps all bytes of
// the value that it lies in.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

class Views {
 public:
  // `alignment` says where values may begin, so that kernels find all of them alike (Device::alignment). `copied` says
  // by node id which of the optional views are copies.
  Views(const Graph& graph, const OpRegistry& registry, int64_t alignment, const std::vector<char>& copied);

  // Returns, in program order, nodes that may be views or copies by their types, wherever their values may lie.
  static std::vector<NodeId> Optional(const Graph& graph, const OpRegistry& registry, int64_t alignment);

  // Tells whether the node is a view, which runs nothing.
  bool IsView(NodeId node) const { return is_view_[static_cast<size_t>(node.index)] != 0; }
  // The value on whose bytes it lies (itself, if it has its own), and the byte from which it does.
  ValueId RootOf(ValueId value) const;
  int64_t OffsetOf(ValueId value) const;

 private:
  struct BytesWithin {
    ValueId in;  // invalid when it has bytes of its own
    int64_t offset = 0;
  };

  BytesWithin& within(ValueId value) { return within_[static_cast<size_t>(value.index)]; }
  const BytesWithin& within(ValueId value) const { return within_[static_cast<size_t>(value.index)]; }
  bool LieInInput(const Node& node, const OpDef& op);
  bool LieInOutput(const Node& node, const OpDef& op);

  const Graph& graph_;
  const int64_t alignment_;
  std::vector<char> is_view_;        // indexed by node id
  std::vector<BytesWithin> within_;  // indexed by value id
};

}  // namespace snug::core
