// The rows of matrix product kernels on CUDA, in order of preference: our own for small products (cuda_small.h),
// cuBLASLt's, and our own (cuda.cu), which serves where the library does not.
#pragma once

#include "ops/kernels/matmul/node.h"

namespace snug::core {

KernelRow SmallCudaMatMulRow(DescribeMatMul describe);
KernelRow CublasMatMulRow(DescribeMatMul describe);
KernelRow OwnCudaMatMulRow(DescribeMatMul describe);

// What is left to do for a node with `sums_a`, `slope` or `gelu` where the product comes alone;
// nothing for others. `inner` holds the types of the sweep for all but the first, which SweepTypes returns as the node
// is prepared.
int64_t SumsOfFactorWorkspace(const NodeTypes& types, const MatMulNode& node);
NodeTypes SweepTypes(const NodeTypes& types, const MatMulNode& node);
absl::Status FinishFusedCuda(const KernelContext& k, const MatMulNode& node, const NodeTypes& inner);

int64_t OwnCudaMatMulWorkspace(const MatMulNode& node, DType dtype);
absl::Status RunOwnCudaMatMul(const KernelContext& k, const MatMulNode& node);

}  // namespace snug::core
