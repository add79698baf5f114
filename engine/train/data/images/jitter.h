// Changes an image's colours at random.
#pragma once

#include <cstdint>

#include "engine/base/random.h"

namespace snug::core {

struct ColourJitter {
  float amount = 0;  // of brightness, contrast and saturation: 0 to 1
  float hue = 0;     // 0 to 0.5
  bool any() const { return amount > 0 || hue > 0; }
};

// Multiplies brightness, then contrast, then (where there are three channels) saturation by a factor from 1 - amount to
// 1 + amount each, and turns the hue by -hue to hue of a whole turn, as torchvision's ColorJitter does; what leaves
// [0, 1] is cut off. `planes` has channels x pixels.
void JitterColours(float* planes, int64_t channels, int64_t pixels, const ColourJitter& jitter, const Philox& random,
                   uint64_t epoch, uint64_t sample);

// Turns the hue of colours in [0, 1] by so much of a whole turn, -0.5 to 0.5, as torchvision's adjust_hue does with
// tensors: 1/3 makes red green, green blue, and blue red. Greys stay.
void TurnHue(float* planes, int64_t pixels, float turn);

}  // namespace snug::core
