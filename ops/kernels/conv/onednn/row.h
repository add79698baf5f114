// The library's convolutions on the processor, as a row of a node's kernels.
#pragma once

#include "ops/kernel_row.h"
#include "ops/kernels/conv/node.h"

namespace snug::core::ops {

// The data keep their layout; the weights, or their gradient, have the one that the library wants.
KernelRow OneDnnConvRow(ConvPart part, DescribeConv describe);

}  // namespace snug::core::ops
