// The order that strategies without an orderer of their own keep: program order, with every update moved up to where
// all it needs is there, so that a gradient dies as soon as it is used. Hazards are kept: they are edges of the tasks.
#pragma once

#include "engine/compile/tasks.h"

namespace snug {

memory::TaskOrder GivenOrder(const Graph& graph, const StepTasks& tasks);

}  // namespace snug
