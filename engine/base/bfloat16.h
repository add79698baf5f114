// bfloat16 as a storage type: the upper half of a float, rounded to nearest even. All arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/host_device.h"

namespace snug::core {

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;  // leaves it unset, as a float is, so that local arrays need not be filled
  // NOLINTNEXTLINE(google-explicit-constructor): converts like the built-in types, so that one kernel template serves
  // all.
  SNUG_HOST_DEVICE BFloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    const bool nan = (u & 0x7fffffffU) > 0x7f800000U;
    u += 0x7fffU + ((u >> 16) & 1U);
    bits = nan ? static_cast<uint16_t>((std::bit_cast<uint32_t>(value) >> 16) | 0x40U) : static_cast<uint16_t>(u >> 16);
  }
  // NOLINTNEXTLINE(google-explicit-constructor)
  SNUG_HOST_DEVICE operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
static_assert(sizeof(BFloat16) == 2);

}  // namespace snug::core
