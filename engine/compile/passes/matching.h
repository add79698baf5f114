// Answers the questions that fusion passes have about a node's surroundings.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace snug::core {

class Surroundings {
 public:
  explicit Surroundings(const Graph& graph);

  // Returns the only node that reads `value`; invalid when there are none or several, or when it is fetched or an
  // objective.
  NodeId SoleReader(ValueId value) const;
  const std::vector<NodeId>& Readers(ValueId value) const { return readers_[static_cast<size_t>(value.index)]; }
  bool Kept(ValueId value) const { return kept_[static_cast<size_t>(value.index)]; }  // fetched, or an objective

 private:
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> kept_;
};

}  // namespace snug::core
