// Reductions by CUDA kernels (cuda.cu): y = factor * (x reduced), where x is input 0 and y is output 0.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/cuda/reduce_spread.h"
#include "ops/prepare_context.h"

namespace snug::core {

template <class Op>  // SumOp or MaxOp
absl::Status ReduceCuda(const KernelContext& k, const ReducePlan& plan, double factor = 1);
// Computes output port y as the sum of input port x.
absl::Status SumPortCuda(const KernelContext& k, const ReducePlan& plan, int x, int y);
inline void PrepareReduceCuda(PrepareContext& c, const ReducePlan& plan) {
  c.SetWorkspaceBytes(CudaReduceSpread(plan, c.types().input(0).dtype).WorkspaceBytes());
}

// Computes dx = dy / n at the n elements of x that equal y, and 0 elsewhere. The inputs are x, y, dy.
absl::Status ReduceMaxGradCuda(const KernelContext& k, const ReducePlan& plan);

}  // namespace snug::core
