// Our own convolutions that are products of matrices, as rows. They take channels-last data and plain weights:
//
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
KernelRow TallConvRow(DescribeConv describe, VariantsFn variants);     // for conv_grad_weight
KernelRow PatchesConvRow(DescribeConv describe, VariantsFn variants);  // for conv_grad_weight
KernelRow ProductConvRow(ConvPart part, DescribeConv describe, VariantsFn variants);

// Says whether `product` takes a convolution unasked.
bool IsOwnProduct(const PrepareContext& c, ConvPart part, DescribeConv describe);

// Says whether it measures its results in less time than a sweep over them takes.
bool MeasuringProductPays(const ConvGeometry& geometry);

// Says whether it makes the gradient of a convolution's data, and sums it for the batch norm before (ConvNode::sums),
// in less time than a sweep over it takes.
bool SummingProductPays(const ConvGeometry& geometry);

}  // namespace snug::core::ops
