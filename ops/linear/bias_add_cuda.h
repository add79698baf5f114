// bias_add and its gradient by CUDA kernels (bias_add.cu).
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/kernels/reduce/reduce.h"

namespace snug::core {

// Computes y = x + b; x lies as [outer, channels, inner].
absl::Status BiasAddCuda(const KernelContext& k, int64_t channels, int64_t inner);

// Sums dy, which lies as [rows, channels, inner], to [channels]; `plan` says the same.
absl::Status BiasGradCuda(const KernelContext& k, const ReducePlan& plan, int64_t rows, int64_t channels,
                          int64_t inner);
int64_t BiasGradCudaWorkspace(const ReducePlan& plan, DType dtype, int64_t rows, int64_t channels, int64_t inner);

}  // namespace snug::core
