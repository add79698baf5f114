// The numbers that `snug compile` and `snug step` print about a compiled network.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug {

struct GraphSummary {
  int64_t parameters = 0;  // elements of all parameters, tied ones once
  int64_t nodes = 0;
  double multiply_adds = 0;      // forward, for the graph's batch
  int64_t activation_bytes = 0;  // values of the forward pass, each once; views own none, nor do copies of Variables
};

GraphSummary Summarize(const Graph& graph, const OpRegistry& registry);

}  // namespace snug
