// Distinct index types, so that a node's number is never used as a value's.
#pragma once

#include <cstdint>
#include <functional>

namespace snug::core {

template <class Tag>
struct Id {
  int32_t index = -1;

  bool valid() const { return index >= 0; }
  friend bool operator==(Id a, Id b) { return a.index == b.index; }
  friend auto operator<=>(Id a, Id b) { return a.index <=> b.index; }
  template <class H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.index);
  }
};

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
using VariableId = Id<struct VariableTag>;

}  // namespace snug::core

template <class Tag>
struct std::hash<snug::core::Id<Tag>> {
  size_t operator()(snug::core::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.index); }
};
