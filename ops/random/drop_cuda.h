// Dropout and stochastic depth by CUDA kernels (drop.cu). They draw the same random numbers as the processor.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"

namespace snug::core {

// Input 0 is the data, input 1 the random state.
absl::Status DropElementsCuda(const KernelContext& k, double rate);
absl::Status DropSamplesCuda(const KernelContext& k, double rate);

}  // namespace snug::core
