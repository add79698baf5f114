// Kernels of convolutions on CUDA, as rows: cuDNN's, or our own (conv_cuda_own.h).
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
  Activation activation = Activation::kIdentity;  // forward
};
using DescribeConv = ConvNode (*)(const NodeTypes&);

KernelRow CudnnConvRow(ConvPart part, DescribeConv describe);
// Beside the library's.
KernelRow OwnCudaConvRow(ConvPart part, DescribeConv describe);

}  // namespace snug::ops
