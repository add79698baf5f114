// HiGHS. Defined where CMake found the library (SNUG_HAS_HIGHS).
#pragma once

#include "memory/ilp/solver.h"

namespace snug::memory {

absl::StatusOr<IlpResult> SolveByHighs(const IlpModel& model, const IlpOptions& options);

}  // namespace snug::memory
