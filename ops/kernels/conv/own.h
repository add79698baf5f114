// Our own fast convolutions on the processor, as rows: "winograd" for 3 x 3 taps (winograd.h), "depthwise" for 3 x 3
// and 5 x 5 taps of each channel alone (depthwise.h), "product" for 1 x 1 taps, which are matrix products of all pixels
// (ops/kernels/matmul/blocked.h). They take channels-last data and plain weights.
#pragma once

#include "ops/kernel_row.h"
#include "ops/kernels/conv/node.h"

namespace snug::core::ops {

// `variants`: what can be had in its place, for `snug tune`.
KernelRow WinogradConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);
KernelRow DepthwiseConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);
KernelRow ProductConvRow(ConvPart part, DescribeConv describe);

}  // namespace snug::core::ops
