// Convolution kernels of oneDNN. The data keeps its layout; the library chooses that of the weights.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/graph/value_type.h"
#include "ops/activation.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/kit/onednn.h"

namespace snug::core::onednn {

struct ConvSpec {
  ops::ConvGeometry geometry;
  ValueType x, w, y;  // the types of the values, or of their gradients
  bool bias = false;
  Activation activation = Activation::kIdentity;  // for MakeConv only
  int threads = 1;
  // The library's name for an implementation ("jit:avx2"), after "winograd " where that is the algorithm. Empty: the
  // library's first choice among the direct ones.
  std::string implementation = {};
};

struct ConvKernel {
  Layout weights;    // the layout that the library wants
  KernelPtr kernel;  // null where w has another layout
};

// Each fails with Unimplemented if the library has nothing but a reference kernel. The arguments of the kernels are:
absl::StatusOr<ConvKernel> MakeConv(const ConvSpec& spec);            // x, w, (bias), y
absl::StatusOr<ConvKernel> MakeConvGradInput(const ConvSpec& spec);   // dy, w, dx
absl::StatusOr<ConvKernel> MakeConvGradWeight(const ConvSpec& spec);  // x, dy, dw

// Lists what `implementation` may be, besides the first choice.
absl::StatusOr<std::vector<std::string>> ConvImplementations(const ConvSpec& spec);
absl::StatusOr<std::vector<std::string>> ConvGradInputImplementations(const ConvSpec& spec);
absl::StatusOr<std::vector<std::string>> ConvGradWeightImplementations(const ConvSpec& spec);

}  // namespace snug::core::onednn
