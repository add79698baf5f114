// Numbers kept in 8 bits (ops/kernels/update/narrow_numbers.h): what a code keeps, that rounding is right on average,
// and what becomes of blocks that are all 0, huge or not finite.
#include "ops/kernels/update/narrow_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace snug::core {
namespace {

float Decode(bool is_signed, uint32_t code, uint32_t exponent) {
  return is_signed ? DecodeNumber<true>(code, exponent) : DecodeNumber<false>(code, exponent);
}
uint32_t Encode(bool is_signed, float number, uint32_t exponent, uint32_t bits) {
  return is_signed ? EncodeNumber<true>(number, exponent, bits) : EncodeNumber<false>(number, exponent, bits);
}

constexpr uint32_t kExponents[] = {33, 60, 127, 200, 253};  // of scales, from the least to the largest

// What has a code keeps it, whatever is drawn, and with the scale of its block or a larger one that has the code too.
TEST(NarrowNumbers, WhatHasACodeKeepsIt) {
  for (const bool is_signed : {true, false}) {
    for (const uint32_t exponent : kExponents) {
      for (uint32_t code = 0; code < 256; ++code) {
        const float number = Decode(is_signed, code, exponent);
        ASSERT_TRUE(std::isfinite(number));
        for (const uint32_t bits : {0U, 1U, 0x7fffU, 0x8000U, 0xffffU}) {
          ASSERT_EQ(Encode(is_signed, number, exponent, bits), code) << is_signed << " " << exponent;
          const bool has_next = is_signed ? (code & 127) >= 16 : code >= 8;  // normal there too
          if (has_next && exponent < 253) {
            ASSERT_EQ(Decode(is_signed, Encode(is_signed, number, exponent + 1, bits), exponent + 1), number);
          }
        }
      }
    }
  }
}

TEST(NarrowNumbers, CodesAscendAndSaySoMuch) {
  for (const uint32_t exponent : kExponents) {
    const float scale = std::bit_cast<float>(exponent << 23);
    for (uint32_t code = 1; code < 256; ++code)
      ASSERT_GT(Decode(false, code, exponent), Decode(false, code - 1, exponent));
    for (uint32_t code = 1; code < 128; ++code) {
      ASSERT_GT(Decode(true, code, exponent), Decode(true, code - 1, exponent));
      ASSERT_EQ(Decode(true, code | 128, exponent), -Decode(true, code, exponent));
    }
    EXPECT_EQ(Decode(true, 127, exponent), scale * 1.875F);
    EXPECT_EQ(Decode(true, 8, exponent), scale * 0x1p-14F);
    EXPECT_EQ(Decode(true, 1, exponent), scale * 0x1p-17F);
    EXPECT_EQ(Decode(true, 0, exponent), 0.0F);
    EXPECT_EQ(Decode(false, 255, exponent), scale * 1.875F);
    EXPECT_EQ(Decode(false, 0, exponent), scale * 0x1p-31F);
  }
}

// Over all bits there are, the mean is the number, to the 2^-17 of the gap that 16 bits cannot tell.
TEST(NarrowNumbers, RoundingIsRightOnAverageOverAllBits) {
  constexpr uint32_t kExponent = 120;
  const float scale = std::bit_cast<float>(kExponent << 23);
  for (const bool is_signed : {true, false}) {
    for (const float part : {1.7F, 1.01F, 0.3333F, 0x1.8765p-9F, 0x1.1p-14F, 0x1.9p-15F, 0x1.4321p-17F, 0x1.5p-20F}) {
      for (const float sign : {1.0F, -1.0F}) {
        if (!is_signed && sign < 0) continue;
        const float number = sign * part * scale;
        double sum = 0;
        float low = std::numeric_limits<float>::infinity(), high = -low;
        for (uint32_t bits = 0; bits < 1U << 16; ++bits) {
          const float rounded = Decode(is_signed, Encode(is_signed, number, kExponent, bits), kExponent);
          sum += static_cast<double>(rounded);
          low = std::min(low, rounded);
          high = std::max(high, rounded);
        }
        ASSERT_LE(low, number);
        ASSERT_GE(high, number);
        EXPECT_NEAR(sum / (1 << 16), static_cast<double>(number), static_cast<double>(high - low) * 0x1p-16) << number;
      }
    }
  }
  // What has no lower neighbour becomes the least, and not 0.
  for (const uint32_t bits : {0U, 0xffffU}) {
    EXPECT_EQ(Encode(false, 0.0F, kExponent, bits), 0U);
    EXPECT_EQ(Encode(false, scale * 0x1p-40F, kExponent, bits), 0U);
  }
}

TEST(NarrowNumbers, ScalesAreThePowersOfTwoThatNoCodeExceeds) {
  const auto scale_of = [](float most) { return std::bit_cast<float>(ScaleOf(std::bit_cast<uint32_t>(most))); };
  EXPECT_EQ(scale_of(0), 0.0F);
  EXPECT_EQ(scale_of(1.0F), 1.0F);
  EXPECT_EQ(scale_of(1.875F), 1.0F);
  EXPECT_EQ(scale_of(std::nextafter(1.875F, 2.0F)), 2.0F);  // might be rounded up to 2
  EXPECT_EQ(scale_of(2.0F), 2.0F);
  EXPECT_EQ(scale_of(0x1p-149F), 0x1p-94F);
  EXPECT_EQ(scale_of(0x1p126F), 0x1p126F);
  for (const float bad : {0x1p127F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(scale_of(bad))) << bad;
  }
  for (const bool is_signed : {true, false}) {
    const float most = std::nextafter(1.875F, 0.0F);  // the largest that keeps its scale, rounded up
    EXPECT_EQ(Encode(is_signed, most, 127, 0xffff), is_signed ? 127U : 255U);
  }
}

struct Array {
  Array(KeptAs as, int64_t n) : bytes(static_cast<size_t>(CodedBytes(n)), 0xAA), kept{as, bytes.data(), n} {}
  Array(const Array&) = delete;
  std::vector<uint8_t> bytes;
  KeptNumbers kept;
};

TEST(NarrowNumbers, BlocksHaveScalesOfTheirOwn) {
  constexpr int64_t kCount = 3 * kCodeBlock + 17;
  std::vector<float> numbers(kCount), found(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t block = i / kCodeBlock;
    const auto angle = static_cast<float>(i);
    numbers[static_cast<size_t>(i)] = block == 1 ? 0.0F : std::ldexp(std::sin(angle), -40 * static_cast<int>(block));
  }
  const std::vector<uint16_t> bits(kCount, 0x8000);
  for (const KeptAs as : {KeptAs::kSigned8, KeptAs::kSquares8}) {
    std::vector<float> given = numbers;
    if (as == KeptAs::kSquares8) {
      for (float& number : given) number *= number;
    }
    Array array(as, kCount);
    StoreNumbers(array.kept, 0, kCount, given.data(), bits.data());
    LoadNumbers(array.kept, 0, kCount, found.data());
    for (int64_t i = 0; i < kCount; ++i) {
      const float number = given[static_cast<size_t>(i)];
      const float scale = std::bit_cast<float>(array.kept.scales()[i / kCodeBlock]);
      const float gap = std::max(std::abs(number) / 8, scale * (as == KeptAs::kSigned8 ? 0x1p-17F : 0x1p-31F));
      ASSERT_LE(std::abs(found[static_cast<size_t>(i)] - number), gap) << i;
      if (i / kCodeBlock == 1) {
        ASSERT_EQ(found[static_cast<size_t>(i)], 0.0F);
      }
    }
    // A part in the middle is read and written by itself.
    Array other(as, kCount);
    StoreNumbers(other.kept, 0, kCount, given.data(), bits.data());
    const std::vector<float> ones(kCodeBlock, 1.0F);
    StoreNumbers(other.kept, kCodeBlock, kCodeBlock, ones.data(), bits.data());
    std::vector<float> all(kCount);
    LoadNumbers(other.kept, 0, kCount, all.data());
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i], i / kCodeBlock == 1 ? 1.0F : found[i]) << i;
    }
  }
}

TEST(NarrowNumbers, ABlockWithWhatIsNotFiniteBecomesNaN) {
  constexpr int64_t kCount = 2 * kCodeBlock;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 0x1p127F}) {
    for (const KeptAs as : {KeptAs::kSigned8, KeptAs::kSquares8}) {
      std::vector<float> numbers(kCount, 2.0F), found(kCount);
      numbers[7] = bad;
      Array array(as, kCount);
      StoreNumbers(array.kept, 0, kCount, numbers.data(), std::vector<uint16_t>(kCount).data());
      LoadNumbers(array.kept, 0, kCount, found.data());
      for (int64_t i = 0; i < kCount; ++i) {
        const float value = found[static_cast<size_t>(i)];
        ASSERT_TRUE(i < kCodeBlock ? std::isnan(value) : value == 2.0F) << i << ": " << value;
      }
    }
  }
}

// Whatever bytes a file brought.
TEST(NarrowNumbers, AnyBytesCanBeRead) {
  constexpr int64_t kCount = kCodeBlock;
  std::vector<float> numbers(kCount);
  for (uint32_t top = 0; top < 1U << 12; ++top) {
    for (const KeptAs as : {KeptAs::kSigned8, KeptAs::kSquares8}) {
      Array array(as, kCount);
      for (int64_t i = 0; i < kCount; ++i) array.kept.codes()[i] = static_cast<uint8_t>(i);
      array.kept.scales()[0] = top << 20 | 5;
      LoadNumbers(array.kept, 0, kCount, numbers.data());
      StoreNumbers(array.kept, 0, kCount, numbers.data(), std::vector<uint16_t>(kCount, 0xffff).data());
      // What comes of them is a block as others are, or one that says that its numbers mean nothing.
      const auto scale = std::bit_cast<float>(array.kept.scales()[0]);
      int exponent = 0;
      ASSERT_TRUE(std::isnan(scale) || scale == 0 || std::frexp(scale, &exponent) == 0.5F) << scale;
      LoadNumbers(array.kept, 0, kCount, numbers.data());
      for (const float number : numbers) ASSERT_EQ(std::isnan(number), std::isnan(scale)) << top;
    }
  }
}

// The means that an optimizer keeps, followed for thousands of steps: of numbers that are the same, and of squares of
// noise. To the nearest code the slow one would not move at all.
TEST(NarrowNumbers, MeansOfManyStepsAreRightOnAverage) {
  constexpr int64_t kCount = 4 * kCodeBlock;
  constexpr int kSteps = 4000;
  constexpr float kDecay = 0.999F;
  Array array(KeptAs::kSquares8, kCount);
  std::vector<float> numbers(kCount, 0.0F), exact(kCount, 0.0F);
  std::vector<uint16_t> bits(kCount);
  uint32_t random = 1;
  const auto next = [&random] { return (random = random * 1664525U + 1013904223U) >> 8; };
  StoreNumbers(array.kept, 0, kCount, numbers.data(), bits.data());
  for (int step = 0; step < kSteps; ++step) {
    LoadNumbers(array.kept, 0, kCount, numbers.data());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float grad = static_cast<float>(next() % 2000) / 1000 - 1;
      numbers[i] = kDecay * numbers[i] + (1 - kDecay) * grad * grad;
      exact[i] = kDecay * exact[i] + (1 - kDecay) * grad * grad;
      bits[i] = static_cast<uint16_t>(next());
    }
    StoreNumbers(array.kept, 0, kCount, numbers.data(), bits.data());
  }
  LoadNumbers(array.kept, 0, kCount, numbers.data());
  double ratio = 0, spread = 0;
  for (size_t i = 0; i < numbers.size(); ++i) ratio += static_cast<double>(numbers[i] / exact[i]) / kCount;
  for (size_t i = 0; i < numbers.size(); ++i) {
    spread += std::pow(static_cast<double>(numbers[i] / exact[i]) - ratio, 2) / kCount;
  }
  EXPECT_NEAR(ratio, 1, 0.03);
  EXPECT_LT(std::sqrt(spread), 0.35);
}

}  // namespace
}  // namespace snug::core
