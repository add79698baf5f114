// The kernels of upsampling, for any geometry and both layouts.
#pragma once

#include "ops/kernel_context.h"
#include "ops/kernels/upsample/geometry.h"
#include "ops/prepare_context.h"

namespace snug::core {

// These build the tables that the kernels on the CPU read, and ask for their workspace.
absl::Status PrepareUpsample(PrepareContext& c, const UpsampleGeometry& g);
absl::Status PrepareUpsampleGrad(PrepareContext& c, const UpsampleGeometry& g);

// Computes output 0, y, from input 0, x; backward output 0, dx, from input 0, dy.
absl::Status Upsample(const KernelContext& k, const UpsampleGeometry& g);
absl::Status UpsampleGrad(const KernelContext& k, const UpsampleGeometry& g);

absl::Status UpsampleCuda(const KernelContext& k, const UpsampleGeometry& g);
absl::Status UpsampleGradCuda(const KernelContext& k, const UpsampleGeometry& g);

}  // namespace snug::core
