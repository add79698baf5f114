// The numbers that users are told about a compiled network.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct GraphSummary {
  int64_t parameters = 0;  // elements of all parameters; tied ones count once
  int64_t nodes = 0;
  double multiply_adds = 0;      // of the forward pass, for the graph's batch
  int64_t activation_bytes = 0;  // values of the forward pass, each once; views and copies of Variables have none
};

GraphSummary Summarize(const Graph& graph, const OpRegistry& registry);

}  // namespace snug::core
