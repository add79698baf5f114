// Checks the Graph's invariants. It runs after every stage of the pipeline in debug builds and in tests.
#pragma once

#include <absl/status/status.h>

#include "engine/graph/graph.h"

namespace snug::core {

// Checks that ids are in range, that every value is defined before it is read in program order, that producers and
// outputs agree, that names are unique, that nothing reads a removed node's value, and that Variables and their values
// agree; the same for sub-graphs. An error is Internal: a bug of ours.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace snug::core
