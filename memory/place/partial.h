// Strategies for buffers under a partial order: those of `--memory=` that do not need lifetimes.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "memory/partial_problem.h"
#include "memory/planner.h"

namespace snug::memory {

// `strategy`: none, nnc, nnc-seed; offset: greedy sequences and local search; best: the best of all these. The lower
// bound is a clique of buffers that interfere. InvalidArgument for others, with the names there are.
absl::StatusOr<Placement> PlacePartial(const PartialProblem& problem, absl::string_view strategy,
                                       const PlannerOptions& options);

}  // namespace snug::memory
