// Lets a node compute on float32, between casts of what is bfloat16. Each node has its own, and they are gone when it
// is done: a copy that two shared would live from one to the other, at twice the bytes of the value itself. What was
// rounded for the node alone is not: it reads a parameter as it is, and its gradient is read as it comes.
#pragma once

#include <set>
#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {

class Widener {
 public:
  Widener(Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry) {}

  // The casts that were inserted around the node.
  std::vector<NodeId> Widen(NodeId id);
  // To be called of every node in program order, behind it: what it mutates is another value from then on.
  void Pass(NodeId id);
  // At the end.
  void RemoveUnreadCasts();

 private:
  ValueId ParameterOf(ValueId value);
  void ReadUnrounded(ValueId value, ValueId rounded);

  Graph& graph_;
  const OpRegistry& registry_;
  std::set<ValueId> mutated_;         // Variables that a node before this one has changed
  std::vector<NodeId> maybe_unread_;  // casts that lost a reader
};

}  // namespace snug
