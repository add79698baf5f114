// Graph + kernels + tasks + Plan -> Executable.
#pragma once

#include "engine/compile/executable.h"
#include "engine/compile/tasks.h"

namespace snug {

Executable Lower(const Graph& graph, const std::vector<KernelChoice>& kernels, const StepTasks& tasks, MemoryPlan plan,
                 int threads);

}  // namespace snug
