// Our own fast convolutions on the processor, as rows. They take channels-last data and plain weights:
//
//   winograd   3 x 3 taps (winograd.h)
//   depthwise  3 x 3 and 5 x 5 taps of each channel alone (depthwise.h)
//   tall       the gradient of few weights of 1 x 1 taps, from many pixels (ops/kernels/matmul/tall.h)
//   patches    the gradient of weights of more taps, in the same way: a row of a factor is what all taps take for one
//              pixel (pixels.h)
//   product    1 x 1 taps: matrix products of all pixels (panels.h and blocked.h there), or of those that it takes
//              where it goes in steps. In float32 it leaves those to oneDNN, if there is one, that it does as well, and
//              takes the others: many pixels, the gradients of many weights, what has a shortcut to add, and what is
//              put together from pieces (split_gemm.h)
#pragma once

#include "ops/kernel_row.h"
#include "ops/kernels/conv/node.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {

// `variants`: what can be had in its place, for `snug tune`.
KernelRow WinogradConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);
KernelRow DepthwiseConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);
KernelRow TallConvRow(DescribeConv describe, VariantsFn variants);     // for conv_grad_weight
KernelRow PatchesConvRow(DescribeConv describe, VariantsFn variants);  // for conv_grad_weight
KernelRow ProductConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);

// Says whether `product` takes a convolution unasked.
bool IsOwnProduct(const PrepareContext& c, ConvPart part, DescribeConv describe);

// Says whether these rows measure the results of a convolution of x in less time than a sweep over them takes
// (ConvNode::measures). In bfloat16 another kernel may be faster by more than that, unless each channel is alone.
bool MeasuringPays(const ConvGeometry& geometry, const ValueType& x);

}  // namespace snug::core::ops
