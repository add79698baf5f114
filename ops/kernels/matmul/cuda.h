// The rows of matrix product kernels on CUDA: cuBLASLt's, and our own (cuda.cu), which serves where the library
// does not.
#pragma once

#include "ops/kernels/matmul/node.h"

namespace snug::core {

KernelRow CublasMatMulRow(DescribeMatMul describe);
KernelRow OwnCudaMatMulRow(DescribeMatMul describe);

// What is left to do for a node with `sums_a`, `before_gelu` or `gelu` where the product comes alone; nothing for
// others. `inner` holds the types of the sweep for the latter two, which GeluSweepTypes returns as the node is
// prepared.
int64_t SumsOfFactorWorkspace(const NodeTypes& types, const MatMulNode& node);
NodeTypes GeluSweepTypes(const NodeTypes& types, const MatMulNode& node);
absl::Status FinishFusedCuda(const KernelContext& k, const MatMulNode& node, const NodeTypes& inner);

int64_t OwnCudaMatMulWorkspace(const MatMulNode& node, DType dtype);
absl::Status RunOwnCudaMatMul(const KernelContext& k, const MatMulNode& node);

}  // namespace snug::core
