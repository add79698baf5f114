// Softmax, norms of rows and groups, and local response norm, which work within rows of a value, by CUDA kernels
// (rows.cu).
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/base/host_device.h"
#include "ops/kernel_context.h"
#include "ops/prepare_context.h"

namespace snug::core {

// The value lies as [outer, axis, inner].
absl::Status SoftmaxCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner);
absl::Status SoftmaxGradCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner);

absl::Status LayerNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon);
absl::Status LayerNormGradCuda(const KernelContext& k, int64_t rows, int64_t width);
int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width);

absl::Status RmsNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon);
absl::Status RmsNormGradCuda(const KernelContext& k, int64_t rows, int64_t width);
int64_t RmsNormGradCudaWorkspace(int64_t rows, int64_t width);

// The rows of group_norm: groups of the channels of a sample, each with `inner` elements.
struct GroupRows {
  int64_t samples, groups, per_group, inner;
  bool side_by_side;  // channels-last

  SNUG_HOST_DEVICE int64_t width() const { return per_group * inner; }
  // Returns where number i of a row lies.
  SNUG_HOST_DEVICE int64_t At(int64_t row, int64_t i) const {
    if (!side_by_side) return row * width() + i;
    return (row / groups * inner + i / per_group) * groups * per_group + Channel(row, i);
  }
  SNUG_HOST_DEVICE int64_t Channel(int64_t row, int64_t i) const {
    return row % groups * per_group + (side_by_side ? i % per_group : i / inner);
  }
};
absl::Status GroupNormCuda(const KernelContext& k, const GroupRows& rows, double epsilon);
absl::Status GroupNormGradCuda(const KernelContext& k, const GroupRows& rows);
int64_t GroupNormGradCudaWorkspace(const ValueType& x);

// The value lies as [outer, channels, inner]. Output c is of the channels from c - before to c + after.
struct ChannelWindow {
  int64_t outer, channels, inner;
  int64_t before, after;
  double alpha, beta, k;  // `alpha` is divided by the window's size already
};
absl::Status LocalResponseNormCuda(const KernelContext& k, const ChannelWindow& window);
absl::Status LocalResponseNormGradCuda(const KernelContext& k, const ChannelWindow& window);

}  // namespace snug::core
