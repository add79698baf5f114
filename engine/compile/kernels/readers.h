// Which nodes read each value, while kernels are chosen: conversions that are put in give a value other readers, and to
// look through the whole graph for these each time takes time by the square of its size.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace snug::core {

// Whoever makes a node read a value tells it; nobody needs to tell that a node does so no longer.
class Readers {
 public:
  explicit Readers(const Graph& graph) : of_(ReadersOf(graph)) {}

  // Returns the nodes that may read `value`: all that do, some perhaps twice, and some that did once.
  std::vector<NodeId> Of(ValueId value) const;
  void Add(ValueId value, NodeId reader);
  // What Graph::ReplaceUses does, in the time that the readers of `from` take.
  void ReplaceUses(Graph& graph, ValueId from, ValueId to);
  // Lets every reader of `value` read `other` instead, except the node just inserted that makes `other` from it. All
  // other readers must come later in program order.
  void ReadInstead(Graph& graph, ValueId value, ValueId other);

 private:
  std::vector<std::vector<NodeId>> of_;  // by value id; values may be newer than this
};

}  // namespace snug::core
