// Placement for Tasks on several streams that never makes a stream wait for bytes to be free. A value's bytes are
// reused only by tasks that come after all its users anyway, because they need what those made or follow them on a
// stream. Compared with a plan for one stream it costs bytes but no time.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/planner.h"

namespace snug::core::memory {

// `streams` has the tasks of each stream, in the sequence in which it runs them. The lower bound holds for this
// schedule.
absl::StatusOr<Placement> PlaceWaitless(const Tasks& tasks, const std::vector<std::vector<int32_t>>& streams,
                                        const PlannerOptions& options);

}  // namespace snug::core::memory
