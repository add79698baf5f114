// A depthwise convolution with the products of pixels around it, as in MobileNet: [expand,] depthwise, project, and
// then perhaps a shortcut that is added. It is done in strips of rows, so that the many channels between the products
// are never in memory.
#pragma once

#include <optional>

#include "ops/activation.h"
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

// The inputs of a node. The weights of a part are followed by its bias; shortcuts, biases, and `expand` may be absent.
struct DepthwiseBlockPorts {
  enum Input { kX, kExpand, kExpandBias, kDepthwise, kDepthwiseBias, kProject, kProjectBias, kShortcut };
};

// nullopt: strips serve such a block, if its data are float32 and channels-last, and its weights kept.
std::optional<NotServed> WhyNotStrips(const DepthwiseBlock& block);

using DescribeDepthwiseBlock = DepthwiseBlock (*)(const NodeTypes& types);
KernelRow StripsRow(DescribeDepthwiseBlock describe);

}  // namespace snug::core::ops
