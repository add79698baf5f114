// Softmax and layer norm, which work within rows of a value, by CUDA kernels (rows.cu).
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/prepare_context.h"

namespace snug::core {

// The value lies as [outer, axis, inner].
absl::Status SoftmaxCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner);
absl::Status SoftmaxGradCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner);

absl::Status LayerNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon);
absl::Status LayerNormGradCuda(const KernelContext& k, int64_t rows, int64_t width);
int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width);

}  // namespace snug::core
