// Prints the last stages as stable text, for dumps and golden tests (engine/graph/print.h prints the graph's).
#pragma once

#include <string>

#include "engine/compile/pipeline.h"

namespace snug::core {

// Returns a line for each node that runs, in order: name, op, kernel, workspace. Views run nothing.
std::string OrderText(const Compiled& compiled);
// Returns a line for each buffer of the step arena: offset, bytes, and the first and last position at which it is
// needed.
std::string PlanText(const Compiled& compiled);

}  // namespace snug::core
