// Which values lie within the bytes of others, so that the nodes between them have nothing to do: views by their op
// (reshape, flatten, ...), parts that are one range of what they are cut from (slice, split), and parts that are
// written where the whole wants them (concat). The latter two may be copied instead: a view keeps all of what it lies
// in.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {

class Views {
 public:
  // `alignment`: where values may begin, so that kernels find all of them alike (Device::alignment). `copied`, by node
  // id: which of the optional ones are none.
  Views(const Graph& graph, const OpRegistry& registry, int64_t alignment, const std::vector<char>& copied);

  // Nodes that may be views or copies: by their types, wherever else their values lie. In program order.
  static std::vector<NodeId> Optional(const Graph& graph, const OpRegistry& registry, int64_t alignment);

  // It runs nothing.
  bool IsView(NodeId node) const { return is_view_[static_cast<size_t>(node.index)] != 0; }
  // The value on whose bytes it lies, itself if it has its own, and from which byte on.
  ValueId RootOf(ValueId value) const;
  int64_t OffsetOf(ValueId value) const;

 private:
  struct Place {
    ValueId in;  // invalid: bytes of its own
    int64_t offset = 0;
  };

  Place& place(ValueId value) { return places_[static_cast<size_t>(value.index)]; }
  const Place& place(ValueId value) const { return places_[static_cast<size_t>(value.index)]; }
  bool LieInInput(const Node& node, const OpDef& op);
  bool LieInOutput(const Node& node, const OpDef& op);

  const Graph& graph_;
  const int64_t alignment_;
  std::vector<char> is_view_;  // by node id
  std::vector<Place> places_;  // by value id
};

}  // namespace snug
