#include "engine/base/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace snug::core {
namespace {

BFloat16 FromBits(uint32_t bits) {
  BFloat16 value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

TEST(BFloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FromBits(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(BFloat16(value).bits, bits);
    }
  }
}

// The lower half decides: below, at and above the middle, for every upper half. The nearest is found by distance.
TEST(BFloat16, RoundsToNearestEven) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    if ((upper & 0x7f80U) == 0x7f80U) continue;  // infinities and NaN: below
    for (const uint32_t lower : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float value = std::bit_cast<float>((upper << 16) | lower);
      // One step away from zero; beyond the largest finite number it counts as 2^128.
      const bool overflow = ((upper + 1) & 0x7fffU) == 0x7f80U;
      const double low = static_cast<float>(FromBits(upper));
      const double high = overflow ? std::copysign(0x1p128, low) : static_cast<float>(FromBits(upper + 1));
      const double to_low = std::abs(static_cast<double>(value) - low);
      const double to_high = std::abs(high - static_cast<double>(value));
      const bool up = to_high < to_low || (to_high == to_low && (upper & 1U) == 1);
      ASSERT_EQ(BFloat16(value).bits, up ? upper + 1 : upper) << std::hex << upper << " " << lower;
    }
  }
}

TEST(BFloat16, KeepsInfinitiesAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(BFloat16(infinity)), infinity);
  EXPECT_EQ(static_cast<float>(BFloat16(-infinity)), -infinity);
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), infinity);
  for (const uint32_t bits : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(bits))))) << std::hex << bits;
  }
}

}  // namespace
}  // namespace snug::core
