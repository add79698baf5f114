// The order stage: the sequence in which nodes run. Here: program order, with every update moved up to where all it
// needs is there, so that a gradient dies as soon as it is used. Hazards are kept: reads and mutations of a Variable
// stay in program order.
#pragma once

#include <vector>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {

using Order = std::vector<NodeId>;

Order ChooseOrder(const Graph& graph, const OpRegistry& registry);

// For each node, the nodes that must run before it: producers of what it reads, and the hazards around Variables
// (earlier mutations before a read; earlier reads and mutations before a mutation). Indexed by node id.
std::vector<std::vector<NodeId>> Dependencies(const Graph& graph, const OpRegistry& registry);

}  // namespace snug
