// Dropout and stochastic depth by CUDA kernels (drop.cu): the same random numbers as on the processor.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"

namespace snug {

// Input 0 is what is dropped, input 1 the random state.
absl::Status DropElementsCuda(const KernelContext& k, double rate);
absl::Status DropSamplesCuda(const KernelContext& k, double rate);

}  // namespace snug
