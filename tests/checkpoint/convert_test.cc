#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/train/checkpoint/element_type.h"

namespace snug::core::checkpoint {
namespace {

TEST(HalfToFloat, FollowsTheStandard) {
  EXPECT_EQ(HalfToFloat(0x3C00), 1);
  EXPECT_EQ(HalfToFloat(0xC000), -2);
  EXPECT_EQ(HalfToFloat(0x7BFF), 65504);
  EXPECT_EQ(HalfToFloat(0x3555), 0.333251953125F);
  EXPECT_EQ(HalfToFloat(0x0400), std::ldexp(1.0F, -14));     // the smallest normal one
  EXPECT_EQ(HalfToFloat(0x03FF), std::ldexp(1023.0F, -24));  // the largest subnormal one
  EXPECT_EQ(HalfToFloat(0x0001), std::ldexp(1.0F, -24));
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
  EXPECT_EQ(HalfToFloat(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7E00)));
}

TEST(HalfToFloat, GrowsWithTheBits) {
  for (uint16_t bits = 1; bits <= 0x7C00; ++bits) {
    EXPECT_LT(HalfToFloat(static_cast<uint16_t>(bits - 1)), HalfToFloat(bits)) << bits;
  }
}

TEST(Convert, IsBetweenFloatingTypesOrEqualOnes) {
  EXPECT_TRUE(CanConvert(ElementType::kF16, DType::kFloat32));
  EXPECT_TRUE(CanConvert(ElementType::kF64, DType::kBFloat16));
  EXPECT_TRUE(CanConvert(ElementType::kI64, DType::kInt64));
  EXPECT_FALSE(CanConvert(ElementType::kI32, DType::kInt64));
  EXPECT_FALSE(CanConvert(ElementType::kI32, DType::kFloat32));
  EXPECT_FALSE(CanConvert(ElementType::kF32, DType::kInt32));
  EXPECT_FALSE(CanConvert(ElementType::kF8E4M3, DType::kFloat32));
  EXPECT_FALSE(CanConvert(ElementType::kBool, DType::kUint8));
}

TEST(Convert, RoundsToNearest) {
  const std::vector<double> in = {1, 0.1, -1e300, 1.00390625};  // the last lies between two bfloat16, the even one is 1
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(in.data()), in.size() * sizeof(double));
  std::vector<float> floats(4);
  Convert(ElementType::kF64, bytes, DType::kFloat32, reinterpret_cast<std::byte*>(floats.data()));
  EXPECT_EQ(floats, (std::vector<float>{1, 0.1F, -std::numeric_limits<float>::infinity(), 1.00390625F}));
  std::vector<BFloat16> halves(4);
  Convert(ElementType::kF64, bytes, DType::kBFloat16, reinterpret_cast<std::byte*>(halves.data()));
  EXPECT_EQ(static_cast<float>(halves[3]), 1);
  std::vector<double> doubles(4);
  Convert(ElementType::kBF16, {reinterpret_cast<const std::byte*>(halves.data()), 8}, DType::kFloat64,
          reinterpret_cast<std::byte*>(doubles.data()));
  EXPECT_EQ(doubles[1], 0.10009765625);
}

}  // namespace
}  // namespace snug::core::checkpoint
