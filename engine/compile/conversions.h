// Inserts a `reorder` node: the same value in another layout. The output's layout is the type's own, so the node is
// made here and not by inference.
#pragma once

#include "engine/graph/graph.h"

namespace snug {

// Right before `before` (an invalid id: at the end); phase and location are those of `beside`.
ValueId InsertReorder(Graph& graph, ValueId value, const Layout& layout, NodeId before, NodeId beside);

}  // namespace snug
