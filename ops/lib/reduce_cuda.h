// Reductions by CUDA kernels (reduce.cu): y = factor * (x reduced), x being input 0 and y output 0.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/lib/cuda_reduce_parts.h"
#include "ops/lib/reduce.h"
#include "ops/prepare_context.h"

namespace snug {

template <class Op>  // SumOp or MaxOp
absl::Status ReduceCuda(const KernelContext& k, const ReducePlan& plan, double factor = 1);
inline void PrepareReduceCuda(PrepareContext& c, const ReducePlan& plan) {
  c.SetWorkspaceBytes(CudaReduceParts(plan).WorkspaceBytes(plan));
}

// dx = dy / n at the n elements of x that are y, else 0; inputs x, y, dy.
absl::Status ReduceMaxGradCuda(const KernelContext& k, const ReducePlan& plan);

}  // namespace snug
