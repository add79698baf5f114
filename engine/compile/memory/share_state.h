// Lets several compiled networks share one state arena: training, evaluation, another batch.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "engine/compile/pipeline.h"
#include "memory/share/blocks.h"

namespace snug::core {

// Variables of the same name become one, and so do constants with the same contents: every network's Slots, accesses
// and state plan are changed to the common arena. Fails with InvalidArgument where two networks disagree about a
// Variable. A single network stays as it is. `planner` places the Variables in the common arena.
using StatePlanner = memory::Plan (*)(const memory::Problem& problem);
absl::Status ShareState(absl::Span<Compiled> programs, StatePlanner planner = memory::PlanNone);

}  // namespace snug::core
