// Inserts a node that gives a value in another form, right before `before` (an invalid id: at the end); phase and
// location are those of `beside`.
#pragma once

#include "engine/graph/graph.h"

namespace snug {

// In another layout. The output's layout is the type's own, so the node is made here and not by inference.
ValueId InsertReorder(Graph& graph, ValueId value, const Layout& layout, NodeId before, NodeId beside);
// As another floating type, in the same layout.
ValueId InsertCast(Graph& graph, ValueId value, DType dtype, NodeId before, NodeId beside);

// Every reader of `value` gets `other`, which a node just inserted behind it makes of it: they all come later in
// program order, but for that node.
void ReadInstead(Graph& graph, ValueId value, ValueId other);

}  // namespace snug
