// Convolution on CUDA: cuDNN's, or our own (conv_cuda_own.h).
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/lib/activation.h"
#include "ops/lib/conv_geometry.h"
#include "ops/prepare_context.h"

namespace snug::ops {

// Inputs x, w and, if there is one, the bias.
absl::Status ConvCuda(const KernelContext& k, const ConvGeometry& g, Activation activation);
absl::Status ConvGradInputCuda(const KernelContext& k, const ConvGeometry& g);   // inputs dy, w
absl::Status ConvGradWeightCuda(const KernelContext& k, const ConvGeometry& g);  // inputs x, dy

absl::Status PrepareConvCuda(PrepareContext& c, const ConvGeometry& g, Activation activation);
absl::Status PrepareConvGradInputCuda(PrepareContext& c, const ConvGeometry& g);
absl::Status PrepareConvGradWeightCuda(PrepareContext& c, const ConvGeometry& g);

}  // namespace snug::ops
