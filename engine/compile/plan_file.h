// Memory plans as files (proto/plan.proto): planned once, shipped, and run without planner or solver. By the file's
// name: *.pbtxt and *.txt are text, everything else is binary.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/compile/plan_memory.h"

namespace snug {

struct Compiled;

// The plan of compiled.executable.
absl::Status SavePlan(const Compiled& compiled, const std::string& path);

// A plan for `compiled`, which needs no executable yet: checked against its graph, kernels, batch, threads, device and
// alignment, and verified. The error names what differs, or the bytes that overlap.
absl::StatusOr<MemoryPlan> LoadPlan(const Compiled& compiled, const std::string& path);

}  // namespace snug
