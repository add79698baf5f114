// Orders by integer linear programming: OLLA. The switches are in memory/olla_options.h, offsets alone in
// memory/place/olla.h, both together in memory/olla.h.
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::memory {

// Never above options.olla.start, and with fast_start never above OrderBest. Stops at work_limit iterations of the
// simplex method or at time_limit (ilp/anytime.h). The lower bound is one over all legal orders; the report's notes say
// of each program how far it came, or why it was left out. In-place options do not count.
absl::StatusOr<Ordering> OrderOlla(const Tasks& tasks, const PlannerOptions& options);

}  // namespace snug::memory
