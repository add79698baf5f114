// The strategies of `--memory=` for buffers under a partial order: those that need no lifetimes.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "memory/partial_problem.h"
#include "memory/planner.h"

namespace snug::core::memory {

// `strategy` is none, nnc, nnc-seed, offset (greedy sequences and local search), or best (the best of all these). The
// lower bound is a clique of buffers that interfere. Other names fail with InvalidArgument, which lists these.
absl::StatusOr<Placement> PlacePartial(const PartialProblem& problem, absl::string_view strategy,
                                       const PlannerOptions& options);

}  // namespace snug::core::memory
