// Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): the n-th number of a stream is a pure function of
// (key, n), so results never depend on threads, order, device or what was drawn before.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "engine/base/host_device.h"

namespace snug::core {

struct Philox {
  uint64_t key = 0;

  // Returns four independent 32-bit words for (stream, counter).
  SNUG_HOST_DEVICE std::array<uint32_t, 4> operator()(uint64_t stream, uint64_t counter) const {
    std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                                 static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
    uint32_t k0 = static_cast<uint32_t>(key);
    uint32_t k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53U} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return c;
  }
};

// Mixes two words into one key (splitmix64's finaliser).
SNUG_HOST_DEVICE inline uint64_t MixKeys(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9E3779B97F4A7C15U * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// Returns a number in [0, 1) with 24 bits, which is exact in float, so that every device gives the same number.
SNUG_HOST_DEVICE inline float ToUniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

// Returns two standard normal numbers from two words (Box-Muller in double, the same on every device with IEEE
// doubles).
inline std::array<double, 2> ToNormals(uint32_t a, uint32_t b) {
  const double u = (static_cast<double>(a) + 1.0) * 0x1p-32;  // (0, 1]
  const double v = static_cast<double>(b) * 0x1p-32;
  const double r = std::sqrt(-2.0 * std::log(u));
  const double angle = 6.283185307179586476925 * v;
  return {r * std::cos(angle), r * std::sin(angle)};
}

}  // namespace snug::core
