// Convolutions of bfloat16 images by the library's float32 kernels, some images at a time: each thread turns those of a
// slice into float, calls a kernel for them, and rounds what comes out, so that nothing but a slice is ever in float32,
// and it stays in the second-level cache. Weights and bias are float32: parameters as they are, and the gradient that
// their update reads.
#pragma once

#include <absl/status/statusor.h>

#include "ops/kernels/conv/onednn/conv.h"

namespace snug::core::onednn {

// How a spec's convolution is cut, by its shape.
struct ConvSlices {
  explicit ConvSlices(const ConvSpec& spec);
  // Says whether cutting pays: there is work for each thread, and weights are few enough to be read for each slice.
  bool pay(const ConvSpec& spec, bool weights_are_input) const;
  int64_t images = 1;  // in a slice; divides the batch
  int64_t count = 1;
};

using MakeConvFn = absl::StatusOr<ConvKernel> (*)(const ConvSpec&);

// Makes a kernel for spec's types, x and y being bfloat16 and w float32, with the arguments of `make`, which is one of
// the functions of onednn.h. `weights_are_input`: otherwise dw is what it makes.
absl::StatusOr<ConvKernel> MakeSlicedConv(const ConvSpec& spec, MakeConvFn make, bool weights_are_input);

}  // namespace snug::core::onednn
