// A pass: one function over the Graph, listed with its name in passes/list.cc, and switched off by that name. On or
// off, training agrees to rounding.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {

struct Pass {
  absl::string_view name;
  absl::string_view doc;
  absl::Status (*run)(Graph& graph, const OpRegistry& registry);
};

// In the order in which they run: on the forward graph before it is differentiated, on the whole graph after, and on
// what that has become where it is compiled for CUDA.
absl::Span<const Pass> ForwardPasses();
absl::Span<const Pass> WholePasses();
absl::Span<const Pass> CudaPasses();

// The passes themselves, a file each.
absl::Status RemoveDeadCode(Graph& graph, const OpRegistry& registry);
absl::Status MergeCommonSubexpressions(Graph& graph, const OpRegistry& registry);
absl::Status FoldConstants(Graph& graph, const OpRegistry& registry);
absl::Status FuseCrossEntropy(Graph& graph, const OpRegistry& registry);
absl::Status JoinSlices(Graph& graph, const OpRegistry& registry);
absl::Status FuseBatchNorm(Graph& graph, const OpRegistry& registry);
absl::Status FuseActivation(Graph& graph, const OpRegistry& registry);
absl::Status AssignLayouts(Graph& graph, const OpRegistry& registry);
absl::Status FuseElementwise(Graph& graph, const OpRegistry& registry);

}  // namespace snug
