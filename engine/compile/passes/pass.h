// A pass is a function that changes the Graph. passes/list.cc lists it with its name, by which it can be switched off.
// With or without it, training gives the same up to rounding.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct Pass {
  absl::string_view name;
  absl::string_view doc;
  absl::Status (*run)(Graph& graph, const OpRegistry& registry);
};

// These are in the order in which they run: on the forward graph before it is differentiated, then on the whole graph,
// then on that graph if it is compiled for CUDA.
absl::Span<const Pass> ForwardPasses();
absl::Span<const Pass> WholePasses();
absl::Span<const Pass> CudaPasses();

// The passes themselves, each in a file of its own.
absl::Status RemoveDeadCode(Graph& graph, const OpRegistry& registry);
absl::Status MergeCommonSubexpressions(Graph& graph, const OpRegistry& registry);
absl::Status FoldConstants(Graph& graph, const OpRegistry& registry);
absl::Status FuseCrossEntropy(Graph& graph, const OpRegistry& registry);
absl::Status JoinSlices(Graph& graph, const OpRegistry& registry);
absl::Status FuseBatchNorm(Graph& graph, const OpRegistry& registry);
absl::Status FuseActivation(Graph& graph, const OpRegistry& registry);
absl::Status AssignLayouts(Graph& graph, const OpRegistry& registry);
absl::Status FuseElementwise(Graph& graph, const OpRegistry& registry);

}  // namespace snug::core
