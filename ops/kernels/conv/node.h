// A node that is a convolution or one of its gradients. An op brings a function from its types to this description;
// kernels of several devices and libraries come from here.
#pragma once

#include "ops/activation.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/node_types.h"

namespace snug::core::ops {

enum class ConvPart : uint8_t {
  kForward,     // inputs x, w, the bias, if there is one, and what is added, if anything is
  kGradInput,   // inputs dy, w, and what SumsInput says, if the node sums
  kGradWeight,  // inputs x, dy
};

// The inputs of a kGradInput whose result is the gradient of activation(batch_norm(x) + something). Weight, bias, y and
// dy2 may be absent.
enum SumsInput { kSumsDy, kSumsW, kSumsX, kSumsMean, kSumsVar, kSumsWeight, kSumsBias, kSumsY, kSumsDy2 };

struct ConvNode {
  ConvGeometry geometry;
  // For kForward only, unless the node sums:
  Activation activation = Activation::kIdentity;
  bool adds = false;      // input 3, of the result's shape, is added before the activation
  bool measures = false;  // outputs 1 and 2 are the mean and the variance of each channel of the result
  // For kGradInput only: dy2 is added, what the norm's activation does not let through is 0, and outputs 1 and 2 are
  // the gradients of the norm's weight and bias.
  bool sums = false;
  double epsilon = 0;  // the norm's
};
using DescribeConv = ConvNode (*)(const NodeTypes&);

}  // namespace snug::core::ops
