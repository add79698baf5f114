// Vectors and rows of bfloat16 beside single ones, over all bfloat16 and over many floats, for the vectors of the
// instruction set that SNUG_ISA says.
#include "ops/kit/float_vectors.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
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

// Every 509th float, and what lies next to a rounding's borders.
std::vector<float> ManyFloats() {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 509) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint32_t upper = 0; upper < 1U << 16; ++upper) {
    for (const uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      floats.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return floats;
}

void ExpectRounded(const std::vector<float>& from, const std::vector<BFloat16>& found) {
  for (size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(found[i].bits, BFloat16(from[i]).bits) << std::hex << std::bit_cast<uint32_t>(from[i]);
  }
}

TEST(FloatVectors, StoreWithTheRoundingOfBFloat16) {
  std::vector<float> from = ManyFloats();
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
  ExpectRounded(from, found);
}

// Rows have NaNs beside numbers, too: the borders of the rounding of NaN are among the floats, and numbers are mixed
// in.
TEST(FloatVectors, RoundRows) {
  std::vector<float> from = ManyFloats();
  for (size_t i = 0; i < from.size(); i += 5) from[i] = static_cast<float>(i) * 1.1F;
  std::vector<BFloat16> found(from.size());
  WithIsa([&](auto isa) SNUG_LAMBDA { RoundRow(isa, static_cast<int64_t>(from.size()), from.data(), found.data()); });
  ExpectRounded(from, found);
}

// Of every length up to some vectors; what lies behind stays as it is.
TEST(FloatVectors, RoundRowsOfEveryLength) {
  constexpr size_t kMost = 150;
  for (size_t n = 0; n <= kMost; ++n) {
    std::vector<float> from(n);
    for (size_t i = 0; i < n; ++i) from[i] = (static_cast<float>(i) - 70.0F) * 1.003F;
    if (n > 3) from[n / 2] = std::numeric_limits<float>::quiet_NaN();
    std::vector<BFloat16> found(n + kMost, BFloat16(7.0F));
    WithIsa([&](auto isa) SNUG_LAMBDA { RoundRow(isa, static_cast<int64_t>(n), from.data(), found.data()); });
    from.resize(n + kMost, 7.0F);
    ExpectRounded(from, found);
  }
}

// A row that is longer than what is rounded at a time, made of its own numbers.
TEST(FloatVectors, FillRowsInPlace) {
  constexpr int64_t kLength = 700;
  std::vector<BFloat16> row(kLength);
  std::vector<float> expected(kLength);
  for (int64_t i = 0; i < kLength; ++i) {
    const auto at = static_cast<size_t>(i);
    row[at] = static_cast<float>(i) * 0.37F;
    expected[at] = static_cast<float>(row[at]) * 1.7F;
  }
  WithIsa([&](auto isa) SNUG_LAMBDA {
    BFloat16* const numbers = row.data();
    FillRow(isa, kLength, numbers, [=](int64_t i) SNUG_LAMBDA { return static_cast<float>(numbers[i]) * 1.7F; });
  });
  ExpectRounded(expected, row);
}

}  // namespace
}  // namespace snug::core
