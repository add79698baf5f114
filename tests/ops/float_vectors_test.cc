// Vectors of bfloat16 beside single ones, over all bfloat16 and over all floats (every 509th, and what lies next to a
// rounding's borders), for the vectors of the instruction set that SNUG_ISA says.
#include "ops/kit/float_vectors.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "ops/kernels/matmul/gemm_tile.h"

namespace snug::core {
namespace {

TEST(FloatVectors, LoadWhatBFloat16Is) {
  std::vector<BFloat16> from(1 << 16);
  for (size_t i = 0; i < from.size(); ++i) from[i].bits = static_cast<uint16_t>(i);
  std::vector<float> found(from.size());
  WithIsa([&](auto isa) SNUG_LAMBDA {
    using Tile = GemmTile<isa(), float>;
    for (size_t i = 0; i < from.size(); i += Tile::kLanes) {
      typename Tile::Vector v;
      LoadFloats(from.data() + i, v);
      StoreFloats(v, found.data() + i);
    }
  });
  for (size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), static_cast<uint32_t>(i) << 16);
  }
}

TEST(FloatVectors, StoreWithTheRoundingOfBFloat16) {
  std::vector<float> from;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 509) {
    from.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint32_t upper = 0; upper < 1U << 16; ++upper) {
    for (const uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      from.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  from.resize(from.size() / 16 * 16);
  std::vector<BFloat16> found(from.size());
  WithIsa([&](auto isa) SNUG_LAMBDA {
    using Tile = GemmTile<isa(), float>;
    for (size_t i = 0; i < from.size(); i += Tile::kLanes) {
      typename Tile::Vector v;
      LoadFloats(from.data() + i, v);
      StoreFloats(v, found.data() + i);
    }
  });
  for (size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(found[i].bits, BFloat16(from[i]).bits) << std::hex << std::bit_cast<uint32_t>(from[i]);
  }
}

}  // namespace
}  // namespace snug::core
