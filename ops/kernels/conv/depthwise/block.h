// A depthwise convolution with the products of pixels around it, as in MobileNet: [expand,] depthwise, project, and
// then perhaps a shortcut that is added. It is done in strips of rows, so that the many channels between the products
// are never in memory.
#pragma once

#include <optional>

#include "ops/activation.h"
#include "ops/depthwise_block.h"
#include "ops/kernel_row.h"
#include "ops/kernels/conv/geometry.h"

namespace snug::core::ops {

struct DepthwiseBlock {
  struct Part {
    ConvGeometry geometry;
    Activation activation = Activation::kIdentity;
  };
  std::optional<Part> expand;
  Part depthwise, project;
};

// nullopt: strips serve a block of such data, if its weights are kept.
std::optional<NotServed> WhyNotStrips(const DepthwiseBlock& block, const ValueType& x);

using DescribeDepthwiseBlock = DepthwiseBlock (*)(const NodeTypes& types);
KernelRow StripsRow(DescribeDepthwiseBlock describe);

}  // namespace snug::core::ops
