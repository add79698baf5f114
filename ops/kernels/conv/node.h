// A node that is a convolution or one of its gradients. An op brings a function from its types to this description;
// kernels of several devices and libraries come from here.
#pragma once

#include "ops/activation.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/node_types.h"

namespace snug::core::ops {

enum class ConvPart : uint8_t {
  kForward,     // inputs x, w, the bias, if there is one, and what is added, if anything is
  kGradInput,   // inputs dy, w
  kGradWeight,  // inputs x, dy
};

struct ConvNode {
  ConvGeometry geometry;
  // For kForward only:
  Activation activation = Activation::kIdentity;
  bool adds = false;      // input 3, of the result's shape, is added before the activation
  bool measures = false;  // outputs 1 and 2 are the mean and the variance of each channel of the result
};
using DescribeConv = ConvNode (*)(const NodeTypes&);

}  // namespace snug::core::ops
