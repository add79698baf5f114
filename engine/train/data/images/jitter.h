// Changes an image's colours at random.
#pragma once

#include <cstdint>

#include "engine/base/random.h"

namespace snug::core {

// Multiplies brightness, then contrast, then (where there are three channels) saturation by a factor from 1 - amount to
// 1 + amount each, as torchvision's ColorJitter does; what leaves [0, 1] is cut off. `planes` has channels x pixels.
void JitterColours(float* planes, int64_t channels, int64_t pixels, float amount, const Philox& random, uint64_t epoch,
                   uint64_t sample);

}  // namespace snug::core
