// The kernels of pooling, for any geometry and both layouts: the pooling ops bind them, whatever their options. An op
// has one function that works out the geometry, as a template over the kernel that it calls, and two rows of it:
//
//   .kernels = {Plain(Forward<AveragePool>), OwnOnCuda(SNUG_IF_CUDA(Forward<AveragePoolCuda>))}
#pragma once

#include "ops/kernel_context.h"
#include "ops/kernels/pool/geometry.h"

namespace snug::core {

using AveragePoolFn = absl::Status (*)(const KernelContext& k, const PoolGeometry& g, bool include_padding);
using MaximumPoolFn = absl::Status (*)(const KernelContext& k, const PoolGeometry& g);

// Sets output 0 to the mean of each window of input 0. `include_padding` counts padding as zeros.
absl::Status AveragePool(const KernelContext& k, const PoolGeometry& g, bool include_padding);
// Computes the gradient: input 0 is dy, output 0 is dx.
absl::Status AverageUnpool(const KernelContext& k, const PoolGeometry& g, bool include_padding);

// Sets output 0 to the first maximum of each window of input 0, in row-major order; NaN is above everything. If the
// node has an output 1, sets it to the maximum's number within the window, in g.index_type().
absl::Status MaximumPool(const KernelContext& k, const PoolGeometry& g);
// Computes the gradient: input 0 has these numbers, input 1 is dy, output 0 is dx.
absl::Status MaximumUnpool(const KernelContext& k, const PoolGeometry& g);

// Does what these two do for windows of at most kMostHalfByteTaps and whole groups of channels (index_lanes.h), whose
// numbers are two to a byte: [batch, channels / 2, ...]. In plain storage, which tests compare with, that takes a
// workspace and a sweep.
inline constexpr int64_t kMostHalfByteTaps = 16;
int64_t HalfByteIndexWorkspace(const PoolGeometry& g);
absl::Status MaximumPoolHalfBytes(const KernelContext& k, const PoolGeometry& g);
absl::Status MaximumUnpoolHalfBytes(const KernelContext& k, const PoolGeometry& g);

// These do the same as the first four on CUDA (cuda.cu).
absl::Status AveragePoolCuda(const KernelContext& k, const PoolGeometry& g, bool include_padding);
absl::Status AverageUnpoolCuda(const KernelContext& k, const PoolGeometry& g, bool include_padding);
absl::Status MaximumPoolCuda(const KernelContext& k, const PoolGeometry& g);
absl::Status MaximumUnpoolCuda(const KernelContext& k, const PoolGeometry& g);

}  // namespace snug::core
