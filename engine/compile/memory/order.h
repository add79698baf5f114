// The order for strategies without an orderer: program order, but every update is moved up to where all that it needs
// is there, so that a gradient dies as soon as it is used. Hazards are kept, because they are edges of the tasks.
#pragma once

#include "engine/compile/memory/tasks.h"

namespace snug::core {

memory::TaskOrder GivenOrder(const Graph& graph, const StepTasks& tasks);

}  // namespace snug::core
