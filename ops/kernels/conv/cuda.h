// Convolution on CUDA: its kernels as rows, cuDNN's (cudnn.cc) and our own (cuda.cu), which serve where the library
// does not: implicit matrix products, for plain and channels-last data and weights alike.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/kernel_row.h"
#include "ops/kernels/conv/node.h"

namespace snug::core::ops {

KernelRow CudnnConvRow(ConvPart part, DescribeConv describe);
// Our own kernel's row, which stands behind the library's.
KernelRow OwnCudaConvRow(ConvPart part, DescribeConv describe);

// The inputs are x, w and, if there is one, the bias.
absl::Status OwnConvCuda(const KernelContext& k, const ConvGeometry& g, Activation activation);
absl::Status OwnConvGradInputCuda(const KernelContext& k, const ConvGeometry& g);   // inputs dy, w
absl::Status OwnConvGradWeightCuda(const KernelContext& k, const ConvGeometry& g);  // inputs x, dy

int64_t OwnConvWorkspace(const ConvGeometry& g, DType dtype);
int64_t OwnConvGradInputWorkspace(const ConvGeometry& g, DType dtype);
int64_t OwnConvGradWeightWorkspace(const ConvGeometry& g, DType dtype);

}  // namespace snug::core::ops
