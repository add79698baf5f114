// What users are told about a compiled network: its numbers, and its last stages as text.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "engine/graph/graph.h"
#include "ops/registry.h"

namespace snug::core {

struct Compiled;

struct GraphSummary {
  int64_t parameters = 0;  // elements of all parameters; tied ones count once
  int64_t nodes = 0;
  double multiply_adds = 0;  // of the forward pass, for the graph's batch
  // Values of the forward pass, each once; views, and what is made of weights and statistics alone, have none.
  int64_t activation_bytes = 0;
};

GraphSummary Summarize(const Graph& graph, const OpRegistry& registry);

// These print the last stages as stable text, for dumps and golden tests; ToText prints the graph's. This one returns a
// line for each node that runs, in order: name, op, kernel, workspace. Views run nothing. Below a loop that stays a
// node, indented, stand the nodes of a round.
std::string OrderText(const Compiled& compiled);
// Returns a line for each kernel that was passed over before the one that serves a node: node, op, kernel, why, and
// what serves. "(by design)" says that nobody would have expected it to serve.
std::string PassedOverText(const Compiled& compiled);
// Returns a line for each buffer of the step arena: offset, bytes, and the first and last position at which it is
// needed. Then, indented, come the arenas of the bodies of loops.
std::string PlanText(const Compiled& compiled);

}  // namespace snug::core
