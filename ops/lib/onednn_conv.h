// Convolution kernels of oneDNN. The data keeps its layout; the library chooses that of the weights.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/graph/value_type.h"
#include "ops/lib/activation.h"
#include "ops/lib/conv_geometry.h"
#include "ops/lib/onednn.h"

namespace snug::onednn {

struct ConvSpec {
  ops::ConvGeometry geometry;
  ValueType x, w, y;  // of the values, or of their gradients
  bool bias = false;
  Activation activation = Activation::kIdentity;  // forward only
  int threads = 1;
  // By the library's name for it ("jit:avx2"), after "winograd " where that is the algorithm; empty: the library's
  // first choice among the direct ones.
  std::string implementation = {};
};

struct ConvKernel {
  Layout weights;    // what the library wants
  KernelPtr kernel;  // null where w has another layout
};

// Unimplemented: the library has nothing but a reference kernel for this.
absl::StatusOr<ConvKernel> MakeConv(const ConvSpec& spec);            // x, w, (bias), y
absl::StatusOr<ConvKernel> MakeConvGradInput(const ConvSpec& spec);   // dy, w, dx
absl::StatusOr<ConvKernel> MakeConvGradWeight(const ConvSpec& spec);  // x, dy, dw

// What `implementation` may be, beside the first choice.
std::vector<std::string> ConvImplementations(const ConvSpec& spec);
std::vector<std::string> ConvGradInputImplementations(const ConvSpec& spec);
std::vector<std::string> ConvGradWeightImplementations(const ConvSpec& spec);

}  // namespace snug::onednn
