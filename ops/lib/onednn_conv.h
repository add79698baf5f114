// Convolution kernels of oneDNN. The data keeps its layout; the library chooses that of the weights.
#pragma once

#include <absl/status/statusor.h>

#include "engine/graph/value_type.h"
#include "ops/lib/conv_geometry.h"
#include "ops/lib/onednn.h"

namespace snug::onednn {

enum class Activation : uint8_t { kNone, kRelu, kRelu6, kSigmoid, kTanh };

struct ConvSpec {
  ops::ConvGeometry geometry;
  ValueType x, w, y;  // of the values, or of their gradients
  bool bias = false;
  Activation activation = Activation::kNone;  // forward only
  int threads = 1;
};

struct ConvKernel {
  Layout weights;    // what the library wants
  KernelPtr kernel;  // null where w has another layout
};

// Unimplemented: the library has nothing but a reference kernel for this.
absl::StatusOr<ConvKernel> MakeConv(const ConvSpec& spec);            // x, w, (bias), y
absl::StatusOr<ConvKernel> MakeConvGradInput(const ConvSpec& spec);   // dy, w, dx
absl::StatusOr<ConvKernel> MakeConvGradWeight(const ConvSpec& spec);  // x, dy, dw

}  // namespace snug::onednn
