// Several compiled networks over one state arena: training, evaluation, another batch.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "engine/compile/pipeline.h"
#include "memory/share/none.h"

namespace snug {

// Variables of the same name become one, constants of the same contents too: every network's Slots, accesses and state
// plan are changed to the common arena. InvalidArgument where two networks disagree about a Variable. One network stays
// as it is. `planner` gives each Variable of the common arena its place.
using StatePlanner = memory::Plan (*)(const memory::Problem& problem);
absl::Status ShareState(absl::Span<Compiled> programs, StatePlanner planner = memory::PlanNone);

}  // namespace snug
