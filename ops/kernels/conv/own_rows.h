// Our own fast convolutions on the processor, as rows. They take channels-last data, and plain weights or, where
// these are kept, their own layouts:
//
//   winograd   3 x 3 and 5 x 5 taps (winograd/winograd.h)
//   phases     large taps in steps, of few channels (phases.h)
//   spans      few channels, or few filters (spans/spans.h)
//   depthwise  3 x 3 and 5 x 5 taps of each channel alone (depthwise/depthwise.h)
//   tall       the gradient of few weights of 1 x 1 taps, from many pixels (ops/kernels/matmul/tall.h)
//   patches    the gradient of weights of more taps, in the same way: a row of a factor is what all taps take for one
//              pixel (pixels.h)
//   product    1 x 1 taps: matrix products of all pixels (panels.h and blocked.h there), or of those that it takes
//              where it goes in steps. In float32 it leaves those to oneDNN, if there is one, that it does as well, and
//              takes the others (product_choice.h)
//   taps       a product for each tap, forward with weights that are kept: of small images, and in steps
//              (product_choice.h)
#pragma once

#include <optional>

#include "ops/kernel_row.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/conv/node.h"

namespace snug::core::ops {

KernelRow WinogradConvRow(ConvPart part, DescribeConv describe);
KernelRow PhasesConvRow(ConvPart part, DescribeConv describe);  // not for conv_grad_input
KernelRow SpansConvRow(ConvPart part, DescribeConv describe);
KernelRow DepthwiseConvRow(ConvPart part, DescribeConv describe);
KernelRow TallConvRow(DescribeConv describe);     // for conv_grad_weight
KernelRow PatchesConvRow(DescribeConv describe);  // for conv_grad_weight
KernelRow ProductConvRow(ConvPart part, DescribeConv describe);
KernelRow TapsConvRow(DescribeConv describe);  // forward

// nullopt: these sizes are for `depthwise`.
std::optional<NotServed> WhyNotDepthwiseSizes(const ConvGeometry& g);

}  // namespace snug::core::ops
