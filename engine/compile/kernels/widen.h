// Lets a node compute on float32, between casts of what is bfloat16. Each node has casts of its own, which die when it
// is done: a copy that two nodes shared would live from one to the other, at twice the bytes of the value itself. Only
// neighbours in program order share one, as the two products that read a layer's gradient, or read what the other left.
// Where a value was only rounded for the node, no cast is needed: the node reads the parameter itself, and its gradient
// is read unrounded. A node whose kernel reads and writes both types gets that alone, and no casts.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "engine/compile/kernels/readers.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

class Widener {
 public:
  // `readers` are the graph's, for as long as this lives.
  Widener(Graph& graph, const OpRegistry& registry, Readers* readers)
      : graph_(graph), registry_(registry), readers_(*readers) {}

  // Returns the casts that were inserted around the node.
  std::vector<NodeId> Widen(NodeId id);
  // Gives the node what takes no cast: parameters as they are, and updates its results as they are.
  void Unround(NodeId id);
  // Must be called for every node in program order, after it: what the node mutates is another value from then on.
  void Pass(NodeId id);
  // Must be called at the end.
  void RemoveUnreadCasts();

 private:
  void Read(NodeId id, size_t i, ValueId value);
  ValueId Cast(ValueId value, DType dtype, NodeId before, NodeId beside);
  ValueId ParameterOf(ValueId value);
  void ReadUnrounded(ValueId value, ValueId rounded);
  bool UpdatesAloneRead(ValueId value) const;
  bool WidensForFetching(NodeId id, ValueId value) const;

  Graph& graph_;
  const OpRegistry& registry_;
  Readers& readers_;
  std::set<ValueId> mutated_;         // Variables that a node before this one has changed
  std::vector<NodeId> maybe_unread_;  // casts that have lost a reader
  // What this node and the one before it in program order have in float32: casts of inputs, and their results.
  std::map<ValueId, ValueId> casts_, casts_before_;
};

}  // namespace snug::core
