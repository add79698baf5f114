// Placement for Tasks that several streams run side by side, such that no stream ever waits for bytes to be free: a
// value's bytes are used again only by tasks that come after all its users anyway, because they need what those made or
// follow them on a stream. Costs bytes against a plan for one stream, and no time.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/planner.h"

namespace snug::memory {

// `streams`: the tasks of each, in the sequence in which it runs them. The lower bound holds for this schedule.
absl::StatusOr<Placement> PlaceWaitless(const Tasks& tasks, const std::vector<std::vector<int32_t>>& streams,
                                        const PlannerOptions& options);

}  // namespace snug::memory
