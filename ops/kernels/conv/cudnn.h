// What the row of cuDNN's convolutions prepares (CudnnConvRow in cuda.h).
#pragma once

#include <optional>

#include "engine/cuda/cudnn_conv.h"
#include "ops/kernels/conv/fold.h"

namespace snug::core::ops {

// The workspace has what is folded, data and then weights, before that of the library.
struct CudnnConvKernel {
  cuda::CudnnConv conv;          // the folded one, where it is folded
  std::optional<ConvFold> fold;  // never of the gradient of x

  int64_t folded_bytes() const { return fold.has_value() ? fold->data_bytes() + fold->weight_bytes() : 0; }
};

}  // namespace snug::core::ops
