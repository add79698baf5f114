// Turns the bytes of images into numbers in [0, 1].
#pragma once

#include <cstddef>
#include <cstdint>

namespace snug::core {

inline void PixelsToFloats(const uint8_t* pixels, int64_t n, std::byte* floats) {
  auto* out = reinterpret_cast<float*>(floats);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(pixels[i]) / 255;
}

}  // namespace snug::core
