// What control flow asks of CUDA: rows chosen by a mask, and the masks (control.cu).
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "ops/kernel_context.h"

namespace snug::core {

// Writes rows of `a` where the mask, input 0, counts and rows of `b` elsewhere; null stands for zeros. The output may
// be either.
absl::Status ChooseRowsCuda(const KernelContext& k, const void* a, const void* b);
// Output 0 says where input 0 is above `value`, or equals it.
absl::Status CompareCuda(const KernelContext& k, int64_t value, bool greater);
absl::Status InCountCuda(const KernelContext& k);
absl::Status RoundsInCountCuda(const KernelContext& k, int64_t rounds, bool backwards);
absl::Status StillHoldsCuda(const KernelContext& k);

}  // namespace snug::core
