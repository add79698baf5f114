// The solver CBC, COIN-OR's branch and cut. It is defined only where CMake found the library (SNUG_HAS_CBC).
#pragma once

#include "memory/ilp/solver.h"

namespace snug::core::memory {

absl::StatusOr<IlpResult> SolveByCbc(const IlpModel& model, const IlpOptions& options);

}  // namespace snug::core::memory
