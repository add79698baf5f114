// The activations that ops compute in the same sweep as their own result, and the plain form of each.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/base/host_device.h"

namespace snug::proto {
enum Activation : int;
}

namespace snug::core {

enum class Activation : uint8_t { kIdentity, kRelu, kRelu6, kSigmoid, kTanh };

Activation FromProto(proto::Activation activation);
proto::Activation ToProto(Activation activation);

// Functions by whose slope a product is multiplied as it is computed, where it is the gradient of what they give.
enum class SlopeOf : uint8_t { kNothing, kRelu, kGelu, kGeluByTanh };

// A NaN stays NaN.
template <class A>
SNUG_HOST_DEVICE A Activate(Activation activation, A x) {
  switch (activation) {
    case Activation::kIdentity:
      return x;
    case Activation::kRelu:
      return x < A(0) ? A(0) : x;
    case Activation::kRelu6:
      return std::clamp(x, A(0), A(6));
    case Activation::kSigmoid:
      return A(1) / (A(1) + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

}  // namespace snug::core
