// Inserts nodes that convert a value, right before `before` (an invalid id: at the end). They get the phase and
// location of `beside`.
#pragma once

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

// Converts to another layout. The output's layout does not follow from the inputs, so the node is made here and not by
// inference.
ValueId InsertReorder(Graph& graph, ValueId value, const Layout& layout, NodeId before, NodeId beside);
// Converts to another floating type, in the same layout.
ValueId InsertCast(Graph& graph, ValueId value, DType dtype, NodeId before, NodeId beside);
// Tells whether a node converts so, whoever inserted it.
bool IsCast(const Node& node);

// Tells whether a node without outputs (an update) takes `other`, of another type, as its i-th input too.
bool MayReadInstead(const Graph& graph, const OpRegistry& registry, NodeId node, size_t i, ValueId other);
// The same for what it reads now, once that is float32.
bool MayReadInFloat32(const Graph& graph, const OpRegistry& registry, NodeId node, size_t i);

// Lets every reader of `value` read `other` instead, except the node just inserted that makes `other` from it. All
// other readers must come later in program order.
void ReadInstead(Graph& graph, ValueId value, ValueId other);

}  // namespace snug::core
