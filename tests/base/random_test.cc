#include "engine/base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace snug::core {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that come with Random123 (philox4x32, 10 rounds): counter, key, result.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox{0}(0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox{~uint64_t{0}}(~uint64_t{0}, ~uint64_t{0}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox{0x299f31d0a4093822}(0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamsCountersAndKeysDiffer) {
  std::set<Words> seen;
  for (uint64_t key = 0; key < 8; ++key) {
    for (uint64_t stream = 0; stream < 8; ++stream) {
      for (uint64_t counter = 0; counter < 8; ++counter) seen.insert(Philox{key}(stream, counter));
    }
  }
  EXPECT_EQ(seen.size(), 512);
}

TEST(MixKeys, IsSplitMix64) {  // its first three numbers from seed 0
  EXPECT_EQ(MixKeys(0, 0), 0xe220a8397b1dcdafU);
  EXPECT_EQ(MixKeys(0, 1), 0x6e789e6aa1b965f4U);
  EXPECT_EQ(MixKeys(0, 2), 0x06c45d188009454fU);
}

TEST(ToUniform, LiesInItsInterval) {
  EXPECT_EQ(ToUniform(0), 0.0F);
  EXPECT_EQ(ToUniform(0x80000000U), 0.5F);
  EXPECT_EQ(ToUniform(0xffffffffU), 1.0F - 0x1p-24F);
}

TEST(ToNormals, HasMeanZeroAndVarianceOne) {
  constexpr int kPairs = 50000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (int i = 0; i < kPairs; ++i) {
    const Words words = Philox{5}(0, static_cast<uint64_t>(i));
    for (const double x : ToNormals(words[0], words[1])) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
  }
  EXPECT_NEAR(sum / (2 * kPairs), 0, 0.015);  // five standard errors
  EXPECT_NEAR(squares / (2 * kPairs), 1, 0.025);
  EXPECT_NEAR(fourths / (2 * kPairs), 3, 0.16);
}

TEST(ToNormals, StaysFiniteAtTheEdges) {
  for (const uint32_t a : {0U, 1U, 0xffffffffU}) {
    for (const uint32_t b : {0U, 0x80000000U, 0xffffffffU}) {
      for (const double x : ToNormals(a, b)) EXPECT_LE(std::abs(x), 6.7);
    }
  }
}

}  // namespace
}  // namespace snug::core
