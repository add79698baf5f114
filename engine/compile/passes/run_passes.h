// Runs lists of passes (pass.h), and shows the graph after each, as after every stage.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include "engine/compile/passes/pass.h"
#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct CompileOptions;

// Shows a graph to CompileOptions::observer, and verifies it.
absl::Status Observe(const CompileOptions& options, absl::string_view stage, const Graph& graph);

// Runs those that are not disabled, on the bodies of loops too. The first that runs is the stage "<number>_<name>".
absl::Status RunPasses(Graph& graph, const OpRegistry& registry, absl::Span<const Pass> passes, int number,
                       const CompileOptions& options);

}  // namespace snug::core
