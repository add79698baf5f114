// The rows of matrix product kernels on CUDA: cuBLASLt's, and our own (cuda.cu), which serves where the library
// does not.
#pragma once

#include "ops/kernels/matmul/node.h"

namespace snug::core {

KernelRow CublasMatMulRow(DescribeMatMul describe);
KernelRow OwnCudaMatMulRow(DescribeMatMul describe);

int64_t OwnCudaMatMulWorkspace(const MatMulNode& node, DType dtype);
absl::Status RunOwnCudaMatMul(const KernelContext& k, const MatMulNode& node);

}  // namespace snug::core
