// Memory plans as files (proto/plan.proto): planned once, shipped, and run without planner or solver. Files named
// *.pbtxt and *.txt are text, all others are binary.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/compile/memory/plan_memory.h"

namespace snug::core {

struct Compiled;

// Saves the plan of compiled.executable.
absl::Status SavePlan(const Compiled& compiled, const std::string& path);

// Loads a plan for `compiled`, which needs no executable yet. It is checked against the graph, kernels, batch, threads,
// device and alignment, and verified. The error names what differs, or the bytes that overlap.
absl::StatusOr<MemoryPlan> LoadPlan(const Compiled& compiled, const std::string& path);

}  // namespace snug::core
