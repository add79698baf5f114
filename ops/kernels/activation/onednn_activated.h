// Activations behind the library's primitives. The library applies what clamps (relu, relu6); its sigmoid and tanh have
// other last bits than ours, and a loop and the straight line of its rounds must not differ by what is fused.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/kit/onednn.h"

namespace snug::core::onednn {

// Returns a kernel that also applies the activation to the last argument, of `count` elements, unless the primitive
// itself does (AttributesWith). There may be no kernel.
KernelPtr Activated(KernelPtr kernel, Activation activation, DType dtype, int64_t count, int threads);

}  // namespace snug::core::onednn
