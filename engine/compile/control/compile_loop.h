// Compiles the body of a loop that stays a node: kernels, order and plan come from the stages that make those of the
// graph around it, so loops inside it are compiled in the same way. The body's arena becomes workspace of the node.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <functional>

#include "engine/compile/kernels/choose.h"
#include "engine/compile/kernels/round_reads.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct Compiled;

// What it costs to run a body once, from the costs of its ops. Views cost nothing. A loop inside costs what was noted
// of it when it was compiled, and until then its rounds.
Cost CostOfBody(const Graph& body, const OpRegistry& registry);

// What the graph around a loop is compiled with.
struct AroundLoop {
  // Returns a value of the graph in another layout, made before the loop.
  using Reorder = std::function<absl::StatusOr<ValueId>(ValueId value, const Layout& layout)>;
  const ChooseOptions& options;
  const RoundReads& reads;
  Reorder reorder;
};

// Returns the kernel of the node, and notes in its options what it costs. What each round would bring into the same
// layout anew is fed to the node in that layout, by inputs that it gets for that. The body is planned by the default
// strategy, for one stream, until PlanBodies says otherwise.
absl::StatusOr<KernelChoice> CompileLoop(Graph& graph, NodeId loop, const OpRegistry& registry,
                                         const AroundLoop& around);

// Plans bodies by the strategy of the graph around them, those inside others too, and finds the graph's tasks anew
// where workspaces have changed with that. Bodies stay with the default strategy where the graph's has no plan
// (dynamic), or takes minutes and needs a solver that whoever loads the plan may lack (olla). Limits of work and time
// are of the graph's plan alone: a body's plan follows from the name of the strategy, so that plan files fit wherever
// they are loaded.
absl::Status PlanBodies(Compiled& compiled, absl::string_view strategy);

}  // namespace snug::core
