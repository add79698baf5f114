// Compiles the body of a loop that stays a node: kernels, order and plan come from the stages that make those of the
// graph around it, so loops inside it are compiled in the same way. The body's arena becomes workspace of the node.
#pragma once

#include <absl/status/statusor.h>

#include "engine/compile/kernels/choose.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

// Returns the kernel of the node, and notes in its options what it costs. The body is planned by the default strategy,
// for one stream, whatever the graph around it is planned by.
absl::StatusOr<KernelChoice> CompileLoop(Graph& graph, NodeId loop, const OpRegistry& registry,
                                         const ChooseOptions& options);

}  // namespace snug::core
