// bias_add by CUDA kernels (bias_add.cu).
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"

namespace snug::core {

// Computes y = x + b; x lies as [outer, channels, inner].
absl::Status BiasAddCuda(const KernelContext& k, int64_t channels, int64_t inner);

}  // namespace snug::core
