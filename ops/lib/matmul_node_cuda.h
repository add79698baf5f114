// Matrix products by our own CUDA kernel (matmul_node.cu): what serves where the library does not.
#pragma once

#include "ops/lib/matmul_node.h"

namespace snug {

int64_t OwnCudaMatMulWorkspace(const MatMulNode& node, DType dtype);
absl::Status RunOwnCudaMatMul(const KernelContext& k, const MatMulNode& node);

}  // namespace snug
