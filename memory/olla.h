// The strategy `olla`: the programs of the paper as one anytime search. See olla_options.h for their switches.
#pragma once

#include <absl/status/statusor.h>

#include "memory/strategies.h"

namespace snug::core::memory {

// The result is never larger than what `both` makes of the given order. It is also never larger than the plan that
// `exact` finds for that order within a fraction of a second's work, nor, with fast_start, than that of `best`; both
// hold unless time is up before these are made. placement.report covers the whole search: its lower bound holds for all
// legal orders and every choice of what is written in place, and its notes say for each program how far it came, or why
// it was left out. `ordering` has the bound of the peak.
//
// work_limit counts iterations of the simplex method. time_limit is kept by the clock and includes everything, also
// building the programs.
absl::StatusOr<TaskPlan> PlanByOlla(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options);

}  // namespace snug::core::memory
