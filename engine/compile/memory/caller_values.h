// Inputs and outputs whose bytes are the caller's (CompileOptions::bound). The caller says before a step where they
// lie; the step reads and writes them there, and the plan has no bytes for them.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>
#include <vector>

#include "engine/compile/memory/views.h"
#include "engine/graph/graph.h"

namespace snug::core {

struct CallerValue {
  std::string name;
  ValueId value;
  bool input = false;  // an input, which no step writes; otherwise an output, which its producer writes
};

// The result is in the sequence of `names`. `alignment` is that of Views. Fails with InvalidArgument or NotFound where
// a name is no input or output with bytes of its own.
absl::StatusOr<std::vector<CallerValue>> FindCallerValues(const Graph& graph, const OpRegistry& registry,
                                                          int64_t alignment, absl::Span<const std::string> names);

// Returns, by node id, which views must be copies, so that none of the caller's outputs lies within a larger value.
std::vector<char> CopiedForCaller(const Graph& graph, const OpRegistry& registry, int64_t alignment,
                                  absl::Span<const CallerValue> bound);

}  // namespace snug::core
