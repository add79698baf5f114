// Makes an Executable from Graph, kernels, tasks and Plan.
#pragma once

#include "engine/compile/executable.h"
#include "engine/compile/memory/tasks.h"

namespace snug::core {

// The result lacks only the schedule.
Executable Lower(const Graph& graph, const std::vector<KernelChoice>& kernels, const StepTasks& tasks, MemoryPlan plan,
                 absl::Span<const CallerValue> bound, int threads);

}  // namespace snug::core
