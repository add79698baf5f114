// The default strategy: the order of least peak that can be found, then the smallest arena for it; never more than any
// cheap strategy needs for the order it was given.
#pragma once

#include <absl/status/statusor.h>

#include "memory/strategies.h"

namespace snug::memory {

// placement.report.lower_bound holds for all legal orders and every choice of what is written in place.
absl::StatusOr<TaskPlan> PlanBest(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options);

}  // namespace snug::memory
