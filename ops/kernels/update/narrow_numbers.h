// Numbers that are kept in fewer bits than an update computes with: bfloat16, or 8 bits. Each is rounded up or down by
// bits that the caller draws: up with the probability that its distance from the lower neighbour says, so that what is
// rounded is right on average (ops/optim/rounding.h).
//
// In 8 bits (ops/coded_bytes.h), kCodeBlock numbers that lie side by side have a scale together, after Dettmers et al.
// (2022): the power of two that their largest magnitude reaches. Relative to it a number has a code with an exponent of
// its own:
//
//   kSigned8   a sign, 4 bits of exponent, 3 of fraction: down to 2^-14 of the scale, evenly spaced below that, and 0
//   kSquares8  5 bits of exponent, 3 of fraction: down to 2^-31 of the scale; what is smaller becomes that and not 0,
//              because steps are divided by the roots of such numbers
//
// As scales are powers of two, a number that has a code keeps it when the scale of its block changes: it is not rounded
// in every step, but only by as much as the step has changed it. A block whose numbers are all 0 has the scale 0. One
// with a number that is not finite, or from 2^127 on, becomes NaN as a whole.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/bfloat16.h"
#include "engine/base/host_device.h"
#include "ops/coded_bytes.h"

namespace snug::core {

enum class KeptAs : uint8_t { kFloat32, kBFloat16, kSigned8, kSquares8 };

SNUG_HOST_DEVICE inline bool IsCoded(KeptAs as) { return as == KeptAs::kSigned8 || as == KeptAs::kSquares8; }

// `bits` is evenly spread below 2^16. What is a bfloat16 already stays as it is, so do infinities, and NaN stays NaN.
SNUG_HOST_DEVICE inline BFloat16 RoundStochastically(float value, uint32_t bits) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const bool nan = (word & 0x7fffffffU) > 0x7f800000U;
  const uint32_t rounded = nan ? word | 0x400000U : word + bits;
  BFloat16 result;
  result.bits = static_cast<uint16_t>(rounded >> 16);
  return result;
}

// ---- 8 bits ----

inline constexpr uint32_t kNoScale = 0x7fc00000U;  // NaN

// Returns the bits of a block's scale, given those of the largest magnitude in it. Where that would be rounded up to
// the next power of two, the scale is that one. The smallest scales are such that every code is a normal float.
SNUG_HOST_DEVICE inline uint32_t ScaleOf(uint32_t most) {
  if (most == 0) return 0;
  const uint32_t exponent = (most + 0xfffffU) >> 23;
  if (exponent >= 254) return kNoScale;
  return (exponent < 33 ? 33 : exponent) << 23;
}

// Below, `exponent` is that of a scale which is neither 0 nor NaN, with the bias of float32: its bits >> 23.

template <bool kSigned>
SNUG_HOST_DEVICE inline float DecodeNumber(uint32_t code, uint32_t exponent) {
  if constexpr (kSigned) {
    const uint32_t magnitude = code & 127U;
    const uint32_t normal = (magnitude + ((exponent - 15) << 3)) << 20;
    const float unit = std::bit_cast<float>((exponent - 17) << 23);
    const uint32_t small = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * unit);
    return std::bit_cast<float>((magnitude >= 8 ? normal : small) | (code & 128U) << 24);
  } else {
    return std::bit_cast<float>((code + ((exponent - 31) << 3)) << 20);
  }
}

// `bits` is evenly spread below 2^16.
template <bool kSigned>
SNUG_HOST_DEVICE inline uint32_t EncodeNumber(float number, uint32_t exponent, uint32_t bits) {
  const uint32_t word = std::bit_cast<uint32_t>(number);
  const uint32_t magnitude = word & 0x7fffffffU;
  // A code has the upper 12 bits of a float; the lower 20 say how far the next code is.
  const auto rounded = static_cast<int32_t>((magnitude + (bits << 4 | 8U)) >> 20);
  if constexpr (kSigned) {
    const int32_t normal = rounded - static_cast<int32_t>((exponent - 15) << 3);
    const bool is_small = static_cast<int32_t>(magnitude >> 20) - static_cast<int32_t>((exponent - 15) << 3) < 8;
    const float units = std::bit_cast<float>(magnitude) * std::bit_cast<float>((271 - exponent) << 23);
    const auto small = static_cast<int32_t>(units + (static_cast<float>(static_cast<int32_t>(bits)) + 0.5F) * 0x1p-16F);
    return static_cast<uint32_t>(is_small ? small : normal) | (word >> 31) << 7;
  } else {
    const int32_t code = rounded - static_cast<int32_t>((exponent - 31) << 3);
    return static_cast<uint32_t>(code < 0 ? 0 : code);
  }
}

// Where a Variable keeps its numbers, and how.
struct KeptNumbers {
  KeptAs as = KeptAs::kFloat32;
  void* bytes = nullptr;
  int64_t count = 0;

  SNUG_HOST_DEVICE float* wide() const { return static_cast<float*>(bytes); }
  SNUG_HOST_DEVICE BFloat16* halves() const { return static_cast<BFloat16*>(bytes); }
  SNUG_HOST_DEVICE uint32_t* scales() const { return static_cast<uint32_t*>(bytes); }  // of kCodeBlock numbers each
  SNUG_HOST_DEVICE uint8_t* codes() const { return static_cast<uint8_t*>(bytes) + ScaleBytes(count); }
};

// Reads the numbers [first, first + n), and writes them. `first` is a multiple of kCodeBlock, and so is n, unless it
// ends with the last number. bits[i] are drawn for number first + i, and not needed for what is kept as float32.
void LoadNumbers(const KeptNumbers& kept, int64_t first, int64_t n, float* numbers);
void StoreNumbers(const KeptNumbers& kept, int64_t first, int64_t n, const float* numbers, const uint16_t* bits);

}  // namespace snug::core
