// Kernels that are fused have to be compiled where they run.
#pragma once

#include <string>

#include "engine/compile/pipeline.h"

namespace snug {

// Switches off the pass that makes them, for CUDA, where this machine has nothing to compile them with. Why; empty:
// nothing was switched off.
std::string LeaveOutFusionWithoutCompiler(CompileOptions* options);

}  // namespace snug
