// What looks at all gradients before the updates: whether they are finite, and how large they are together. By CUDA
// kernels (gradients.cu).
#pragma once

#include <absl/status/status.h>

#include "engine/base/host_device.h"
#include "ops/kernel_context.h"
#include "ops/prepare_context.h"

namespace snug::core {

// What gradients are multiplied by so that the norm of them all is at most max_norm. Of a norm that is NaN it is NaN,
// as in PyTorch: gradients of which nobody knows how large they are shall not pass for ones that are small enough.
SNUG_HOST_DEVICE inline double ClippingFactor(double max_norm, double norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

absl::Status AllFiniteCuda(const KernelContext& k);
absl::Status ClipByNormCuda(const KernelContext& k, double max_norm);
absl::Status GlobalNormCuda(const KernelContext& k);
absl::Status PrepareGlobalNormCuda(PrepareContext& c);

}  // namespace snug::core
