// Softmax (softmax.cu), norms of rows (row_norm.cu) and local response norm (local_response_norm.cu), which work within
// rows of a value, by CUDA kernels.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "ops/kernel_context.h"
#include "ops/prepare_context.h"

namespace snug::core {

// The value lies as [outer, axis, inner].
absl::Status SoftmaxCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner);
absl::Status SoftmaxGradCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner);

absl::Status LayerNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon);
absl::Status LayerNormGradCuda(const KernelContext& k, int64_t rows, int64_t width);
int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width, DType dtype);

absl::Status RmsNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon);
absl::Status RmsNormGradCuda(const KernelContext& k, int64_t rows, int64_t width);
int64_t RmsNormGradCudaWorkspace(int64_t rows, int64_t width, DType dtype);

// The value lies as [outer, channels, inner]. Output c is of the channels from c - before to c + after.
struct ChannelWindow {
  int64_t outer, channels, inner;
  int64_t before, after;
  double alpha, beta, k;  // `alpha` is divided by the window's size already
};
absl::Status LocalResponseNormCuda(const KernelContext& k, const ChannelWindow& window);
absl::Status LocalResponseNormGradCuda(const KernelContext& k, const ChannelWindow& window);

}  // namespace snug::core
