// Finds orders by integer linear programming: OLLA. The switches are in memory/olla_options.h. memory/place/olla.h
// finds offsets, and memory/olla.h both together.
#pragma once

#include <absl/status/statusor.h>

#include "memory/planner.h"

namespace snug::core::memory {

// The peak is never above that of options.olla.start, and with fast_start never above that of OrderBest. It stops at
// work_limit iterations of the simplex method or at time_limit (ilp/anytime.h). The lower bound holds for all legal
// orders; the report's notes say for each program how far it came, or why it was left out. In-place pairs are ignored.
absl::StatusOr<Ordering> OrderOlla(const Tasks& tasks, const PlannerOptions& options);

}  // namespace snug::core::memory
