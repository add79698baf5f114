// The kernels of pooling, for any geometry and both layouts: what the pooling ops bind, whatever their options. On
// a CUDA device where the node runs there.
#pragma once

#include "ops/kernel_context.h"
#include "ops/lib/pool_geometry.h"

namespace snug {

// Input 0 -> output 0: the mean of each window. `include_padding`: padding counts as zeros.
absl::Status AveragePool(const KernelContext& k, const PoolGeometry& g, bool include_padding);
// Gradient: input 0 is dy, output 0 is dx.
absl::Status AverageUnpool(const KernelContext& k, const PoolGeometry& g, bool include_padding);

// Input 0 -> output 0: the first maximum of each window in row-major order; NaN is above everything. Output 1, if the
// node has one: its number within the window, in g.index_type().
absl::Status MaximumPool(const KernelContext& k, const PoolGeometry& g);
// Gradient: inputs 0 and 1 are these numbers and dy, output 0 is dx.
absl::Status MaximumUnpool(const KernelContext& k, const PoolGeometry& g);

}  // namespace snug
