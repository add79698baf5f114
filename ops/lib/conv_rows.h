// The rows of convolution kernels on CUDA: cuDNN's, and our own (conv_cuda_own.h).
#pragma once

#include "ops/kernel_row.h"
#include "ops/lib/activation.h"
#include "ops/lib/conv_geometry.h"

namespace snug::ops {

enum class ConvPart : uint8_t {
  kForward,     // inputs x, w and, if there is one, the bias
  kGradInput,   // inputs dy, w
  kGradWeight,  // inputs x, dy
};

struct ConvNode {
  ConvGeometry geometry;
  Activation activation = Activation::kIdentity;  // for kForward only
};
using DescribeConv = ConvNode (*)(const NodeTypes&);

KernelRow CudnnConvRow(ConvPart part, DescribeConv describe);
// Our own kernel's row, which stands behind the library's.
KernelRow OwnCudaConvRow(ConvPart part, DescribeConv describe);

}  // namespace snug::ops
