// Stable text of the last stages, for dumps and golden tests (engine/graph/print.h prints the graph's).
#pragma once

#include <string>

#include "engine/compile/pipeline.h"

namespace snug {

// One line a node that runs, in order: name, op, kernel, workspace. Views run nothing.
std::string OrderText(const Compiled& compiled);
// One line a buffer of the step arena: offset, bytes, first and last position at which it is needed.
std::string PlanText(const Compiled& compiled);

}  // namespace snug
