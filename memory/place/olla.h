// Offsets by integer linear programming: section 3.3 of OLLA for lifetimes that are known (program 15). The switches
// are in olla_options.h; the solver in ilp/.
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::memory {

// Of options.olla: pyramid, warm_start, solver. The lower bound is one over all plans of the problem. Stops at
// work_limit iterations of the simplex method or at time_limit (IlpSearch) with the best plan so far, which is at first
// that of the largest buffers first. Problems of more than 100,000 pairs that are live together are not given to the
// solver.
absl::StatusOr<Placement> PlaceOlla(const Problem& problem, const PlannerOptions& options);

}  // namespace snug::memory
