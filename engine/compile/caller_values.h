// Inputs and outputs whose bytes are the caller's (CompileOptions::bound): the step reads and writes them where the
// caller says before it runs, and the plan has no bytes for them.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>
#include <vector>

#include "engine/compile/views.h"
#include "engine/graph/graph.h"

namespace snug {

struct CallerValue {
  std::string name;
  ValueId value;
  bool input = false;  // never written; otherwise an output, written by its producer
};

// In the sequence of `names`. `alignment`: as for Views. InvalidArgument or NotFound where a name is not that of an
// input or output with bytes of its own.
absl::StatusOr<std::vector<CallerValue>> FindCallerValues(const Graph& graph, const OpRegistry& registry,
                                                          int64_t alignment, absl::Span<const std::string> names);

// By node id: which of the views that could be copies have to be, so that no output of the caller's lies within a
// larger value.
std::vector<char> CopiedForCaller(const Graph& graph, const OpRegistry& registry, int64_t alignment,
                                  absl::Span<const CallerValue> bound);

}  // namespace snug
