// The Graph's invariants, checked after every arrow of the pipeline in debug builds and in tests.
#pragma once

#include <absl/status/status.h>

#include "engine/graph/graph.h"

namespace snug {

// Ids in range, every value defined before it is read (program order), producers and outputs agree, names unique,
// nothing reads a removed node's value, variables and their values agree; sub-graphs too. Internal error: our bug.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace snug
