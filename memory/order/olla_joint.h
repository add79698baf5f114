// Program 9 of OLLA: order and offsets at once, for the smallest arena.
#pragma once

#include <absl/status/statusor.h>

#include <functional>

#include "memory/ilp/search.h"
#include "memory/order/olla_graph.h"
#include "memory/planner.h"

namespace snug::memory {

struct JointPlan {
  TaskOrder order;
  Plan plan;  // of LifetimesOf(tasks, order), in-place options not used
};

// Solves for a smaller arena than that of `start`, which is the answer if there is none, or if the program is beyond
// the solver. `exact`: what edges the graph has beyond those of its tasks cost no bytes, so bounds hold without them.
absl::StatusOr<JointPlan> SolveJoint(const OllaGraph& graph, JointPlan start, bool exact, const PlannerOptions& options,
                                     IlpSearch* search);

}  // namespace snug::memory
