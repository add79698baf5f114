// Kernels of ours before and after a convolution that is folded (fold.h). Numbers have 2 bytes and are only moved. What
// is folded begins at a multiple of 16 bytes.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/cuda/cuda_launch.h"
#include "ops/kernels/conv/fold.h"

namespace snug::core::ops {

// x is channels-last.
absl::Status FoldData(const cuda::LaunchContext& cuda, const ConvFold& fold, const void* x, void* folded);
// The kernel and its gradient lie plain, or channels-last.
absl::Status FoldWeights(const cuda::LaunchContext& cuda, const ConvFold& fold, bool channels_last, const void* w,
                         void* folded);
// Takes out of a folded gradient what the kernel has.
absl::Status UnfoldWeights(const cuda::LaunchContext& cuda, const ConvFold& fold, bool channels_last,
                           const void* folded, void* dw);

}  // namespace snug::core::ops
