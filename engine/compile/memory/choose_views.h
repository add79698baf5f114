// Decides which of the values that could be views really are, and which are copied.
#pragma once

#include <absl/types/span.h>

#include <vector>

#include "engine/compile/kernels/choose.h"
#include "engine/compile/memory/caller_values.h"
#include "engine/compile/memory/views.h"

namespace snug::core {

// Chooses the views with which the least possible peak of the given order (order.h) is lowest; of equal choices, the
// one that keeps fewer bytes for a shorter time. The choice depends on the graph only, so it is the same under every
// strategy. Values in which an output of the caller's (`bound`) would lie are copied.
Views ChooseViews(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                  int64_t alignment, bool keep_inputs, absl::Span<const CallerValue> bound = {});

}  // namespace snug::core
