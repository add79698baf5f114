// The default strategy: it finds an order of low peak, then a small arena for it. It never needs more than any cheap
// strategy does for the given order.
#pragma once

#include <absl/status/statusor.h>

#include "memory/strategies.h"

namespace snug::core::memory {

// The bound in placement.report holds for all legal orders and for every choice of what is written in place.
absl::StatusOr<TaskPlan> PlanBest(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options);

}  // namespace snug::core::memory
