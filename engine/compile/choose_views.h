// Which of the views that could be copies are worth it.
#pragma once

#include <absl/types/span.h>

#include <vector>

#include "engine/compile/caller_values.h"
#include "engine/compile/choose.h"
#include "engine/compile/views.h"

namespace snug {

// Those with which the least possible peak of the given order (order.h) is lowest; of equals, those that keep fewer
// bytes for a shorter time. By the graph alone: the same under every strategy. What the caller's outputs (`bound`)
// would lie in is copied.
Views ChooseViews(const Graph& graph, const OpRegistry& registry, const std::vector<KernelChoice>& kernels,
                  int64_t alignment, bool keep_inputs, absl::Span<const CallerValue> bound = {});

}  // namespace snug
