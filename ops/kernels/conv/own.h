// Our own fast convolutions on the processor, as rows. They take channels-last data and plain weights:
//
//   winograd   3 x 3 taps (winograd/winograd.h)
//   depthwise  3 x 3 and 5 x 5 taps of each channel alone (depthwise.h)
//
// Those that are products of matrices are in products.h.
#pragma once

#include "ops/kernel_row.h"
#include "ops/kernels/conv/node.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {

// `variants`: what can be had in its place, for `snug tune`.
KernelRow WinogradConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);
KernelRow DepthwiseConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);

// Says whether these rows and those of products measure the results of a convolution of x in less time than a sweep
// over them takes (ConvNode::measures). In bfloat16 another kernel may be faster by more than that, unless each channel
// is alone.
bool MeasuringPays(const ConvGeometry& geometry, const ValueType& x);

}  // namespace snug::core::ops
