// Pooling by CUDA kernels (pool.cu). pool_kernels.h calls them and says what each does.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/lib/pool_geometry.h"

namespace snug {

absl::Status AveragePoolCuda(const KernelContext& k, const PoolGeometry& g, bool include_padding);
absl::Status AverageUnpoolCuda(const KernelContext& k, const PoolGeometry& g, bool include_padding);
absl::Status MaximumPoolCuda(const KernelContext& k, const PoolGeometry& g);
absl::Status MaximumUnpoolCuda(const KernelContext& k, const PoolGeometry& g);

}  // namespace snug
