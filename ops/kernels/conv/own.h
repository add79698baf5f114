// Our own fast convolutions on the processor, as rows: "winograd" for 3 x 3 taps (winograd.h), "product" for 1 x 1,
// which are matrix products of all pixels (ops/kernels/matmul/blocked.h). Both take channels-last data and plain
// weights.
#pragma once

#include "ops/kernel_row.h"
#include "ops/kernels/conv/node.h"

namespace snug::core::ops {

// `variants`: what can be had in its place, for `snug tune`.
KernelRow WinogradConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);
KernelRow ProductConvRow(ConvPart part, DescribeConv describe);

}  // namespace snug::core::ops
