// What FindTasks needs that does not depend on views, for whoever tries many choices of views on one Graph.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "engine/compile/memory/tasks.h"

namespace snug::core {

// Estimates the seconds that each node's kernel takes on one core of about today's speed, by node id. They are only
// used to compare Steps of one network.
std::vector<double> EstimateSeconds(const Graph& graph, const OpRegistry& registry);

// FindTasks, with these seconds.
StepTasks FindTasksOf(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                      const std::vector<double>& seconds, const Views& views, int64_t alignment, bool keep_inputs,
                      absl::Span<const CallerValue> bound);

}  // namespace snug::core
