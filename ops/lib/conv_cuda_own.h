// Convolution by CUDA kernels of our own (conv.cu), which serve where the library does not. They are implicit matrix
// products, for plain and channels-last data and weights alike.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/lib/activation.h"
#include "ops/lib/conv_geometry.h"

namespace snug::ops {

// The inputs are x, w and, if there is one, the bias.
absl::Status OwnConvCuda(const KernelContext& k, const ConvGeometry& g, Activation activation);
absl::Status OwnConvGradInputCuda(const KernelContext& k, const ConvGeometry& g);   // inputs dy, w
absl::Status OwnConvGradWeightCuda(const KernelContext& k, const ConvGeometry& g);  // inputs x, dy

int64_t OwnConvWorkspace(const ConvGeometry& g, DType dtype);
int64_t OwnConvGradInputWorkspace(const ConvGeometry& g, DType dtype);
int64_t OwnConvGradWeightWorkspace(const ConvGeometry& g, DType dtype);

}  // namespace snug::ops
