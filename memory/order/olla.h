// Orders by integer linear programming, and orders and offsets in one program: OLLA. The switches are in
// memory/olla_options.h, offsets alone in memory/place/olla.h.
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::memory {

// All of options.olla counts. Stops at work_limit iterations of the simplex method or at time_limit (ilp/search.h) with
// the best order so far, which is at first options.olla.start. The lower bound is one over all legal orders. Joint: the
// order of PlanOlla.
absl::StatusOr<Ordering> OrderOlla(const Tasks& tasks, const PlannerOptions& options);

struct OllaPlan {
  Ordering ordering;    // its report is about the peak
  Problem problem;      // LifetimesOf(tasks, ordering.order)
  Placement placement;  // its lower bound is one over all legal orders; its seconds and work are without the ordering's
};

// Order and offsets. In-place options are used by the offsets of the split program only; PeakOf does not count them.
absl::StatusOr<OllaPlan> PlanOlla(const Tasks& tasks, const PlannerOptions& options);

}  // namespace snug::memory
