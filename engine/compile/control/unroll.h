// Unrolls loops and branches into straight lines of nodes, before there are gradients and plans: what comes after knows
// nothing of control flow, and all that it does (gradients, orders, plans, bounds, checks) holds with loops.
//
//   * A round reads the values of the round before it: nothing is moved between rounds. The planner may give them the
//     same bytes, as it may with any values.
//   * Where only a step itself knows how many rounds there are (a count, a condition), all rounds up to the bound run,
//     and a carry is chosen by whether its round counts. Rounds that do not count add nothing to values or gradients,
//     not even what is not finite.
//   * Of a branch, all bodies run, and what comes out is chosen.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct Imported;

bool HasControlFlow(const Graph& graph);

// How many nodes there will be, about; at most 2^62.
int64_t CountUnrolled(const Graph& graph);

// `training`: whether there will be gradients.
absl::Status UnrollControlFlow(Imported& imported, const OpRegistry& registry, bool training);

}  // namespace snug::core
