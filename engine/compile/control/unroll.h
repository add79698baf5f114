// Unrolls loops into straight lines of nodes, after gradients and before plans: what comes after knows nothing of them,
// and all that it does (orders, plans, bounds, checks) holds for their rounds.
//
// A round reads the values of the round before it: nothing is moved between rounds. The planner may give them the same
// bytes, as it may with any values. What one loop collects and another one scans is handed on slice by slice; only
// other readers need it side by side. Where only a step itself knows how many rounds there are, all rounds up to the
// bound run.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <unordered_map>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

// Unrolls the loops that are not rolled, also those in bodies. The graph is in normal form. Returns what stands for
// their outputs, as far as nodes, outputs, objectives or `kept` read them.
absl::StatusOr<std::unordered_map<ValueId, ValueId>> UnrollLoops(Graph& graph, const OpRegistry& registry,
                                                                 absl::Span<const ValueId> kept = {});

}  // namespace snug::core
