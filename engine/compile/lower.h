// Graph + Order + kernels + Plan -> Executable.
#pragma once

#include "engine/compile/executable.h"
#include "engine/compile/liveness.h"

namespace snug {

Executable Lower(const Graph& graph, const Order& order, const std::vector<KernelChoice>& kernels, Liveness liveness,
                 memory::Plan state_plan, memory::Plan step_plan, int threads);

}  // namespace snug
