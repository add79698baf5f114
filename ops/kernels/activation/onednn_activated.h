// Activations behind the library's primitives, by a sweep of our own: the library's relu turns NaN into 0, which would
// hide a broken step, and its sigmoid and tanh have other last bits than ours, where a loop and the straight line of
// its rounds must not differ by what is fused.
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/kit/onednn.h"

namespace snug::core::onednn {

// Returns a kernel that also applies the activation to the last argument, of `count` elements. There may be no kernel.
KernelPtr Activated(KernelPtr kernel, Activation activation, DType dtype, int64_t count, int threads);

}  // namespace snug::core::onednn
