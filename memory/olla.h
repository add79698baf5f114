// The strategy `olla`: its parts as one plan of tasks. See olla_options.h.
#pragma once

#include <absl/status/statusor.h>

#include "memory/strategies.h"

namespace snug::memory {

// placement.report.lower_bound holds for all legal orders. Tasks with in-place options are planned by the split
// program, whose offsets use them, unless the joint one is asked for, which leaves them alone.
absl::StatusOr<TaskPlan> PlanByOlla(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options);

}  // namespace snug::memory
