// Stochastic rounding (ops/optim/rounding.h): what it leaves alone, that it is right on average, and on what its bits
// depend.
#include "ops/optim/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace snug::core {
namespace {

TEST(StochasticRounding, LeavesBFloat16sInfinitiesAndNaNWhatTheyAre) {
  for (const uint32_t bits : {0U, 1U, 0x7fffU, 0x8000U, 0xffffU}) {
    for (uint32_t upper = 0; upper < 1U << 16; ++upper) {
      const float value = std::bit_cast<float>(upper << 16);
      const BFloat16 rounded = RoundStochastically(value, bits);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(static_cast<float>(rounded))) << std::hex << upper;
      } else {
        ASSERT_EQ(rounded.bits, upper) << std::hex << upper;
      }
    }
    const float nan = std::bit_cast<float>(0x7fffffffU);
    EXPECT_TRUE(std::isnan(static_cast<float>(RoundStochastically(nan, bits))));
    EXPECT_TRUE(std::isnan(static_cast<float>(RoundStochastically(-nan, bits))));
  }
}

// Over all bits there are, the upper neighbour is taken as often as the distance from the lower one says: exactly.
TEST(StochasticRounding, IsRightOnAverageOverAllBits) {
  for (const uint32_t word : {0x3f800001U, 0x3f804000U, 0x3f808000U, 0x3f80ffffU, 0xc2f71234U, 0x00012345U}) {
    const float value = std::bit_cast<float>(word);
    int64_t away = 0;
    for (uint32_t bits = 0; bits < 1U << 16; ++bits) {
      const uint16_t rounded = RoundStochastically(value, bits).bits;
      ASSERT_TRUE(rounded == word >> 16 || rounded == (word >> 16) + 1) << std::hex << word;
      away += rounded != word >> 16;
    }
    EXPECT_EQ(away, word & 0xffffU) << std::hex << word;
  }
}

// Adds `change` to each of n ones `steps` times, and returns what they are then.
std::vector<BFloat16> AddRounded(int threads, int64_t n, int steps, float change, int64_t seed = 3, uint32_t id = 5) {
  std::vector<BFloat16> kept(static_cast<size_t>(n), BFloat16(1.0F));
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t state[2] = {seed, step};
    UpdateRounded<1>(threads, n, static_cast<const int64_t*>(state), id,
                     {KeptNumbers{KeptAs::kBFloat16, kept.data(), n}},
                     [=](int64_t, float& number) SNUG_LAMBDA { number += change; });
  }
  return kept;
}

// Each change is a tenth of what lies between two bfloat16s, so to the nearest all of them would be lost.
TEST(StochasticRounding, SmallChangesAddUp) {
  constexpr int64_t kCount = 20001;
  constexpr int kSteps = 100;
  constexpr double kGap = 0x1p-7, kChange = kGap / 10;
  ASSERT_EQ(static_cast<float>(BFloat16(1.0F + static_cast<float>(kChange))), 1.0F);
  const std::vector<BFloat16> kept = AddRounded(1, kCount, kSteps, static_cast<float>(kChange));
  double sum = 0, squares = 0;
  for (const BFloat16 x : kept) {
    const double moved = (static_cast<double>(static_cast<float>(x)) - 1) / kGap;
    sum += moved;
    squares += moved * moved;
  }
  const double mean = sum / kCount, variance = squares / kCount - mean * mean;
  const double expected_variance = kSteps * 0.1 * 0.9;  // each step goes up by one gap in a tenth of cases
  EXPECT_NEAR(mean, kSteps * 0.1, 5 * std::sqrt(expected_variance / kCount));
  EXPECT_NEAR(variance, expected_variance, 0.1 * expected_variance);
}

bool Same(const std::vector<BFloat16>& a, const std::vector<BFloat16>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].bits != b[i].bits) return false;
  }
  return a.size() == b.size();
}

TEST(StochasticRounding, BitsDependOnSeedIdAndStepAlone) {
  constexpr int64_t kCount = 20003;  // several pieces of work, and no whole block at the end
  const std::vector<BFloat16> kept = AddRounded(1, kCount, 3, 0x1p-9F);
  for (const int threads : {2, 3}) EXPECT_TRUE(Same(kept, AddRounded(threads, kCount, 3, 0x1p-9F))) << threads;
  EXPECT_FALSE(Same(kept, AddRounded(1, kCount, 3, 0x1p-9F, /*seed=*/4)));
  EXPECT_FALSE(Same(kept, AddRounded(1, kCount, 3, 0x1p-9F, /*seed=*/3, /*id=*/6)));
  // A shorter array is rounded as the first part of a longer one.
  const std::vector<BFloat16> fewer = AddRounded(1, 77, 3, 0x1p-9F);
  EXPECT_TRUE(Same(fewer, {kept.begin(), kept.begin() + 77}));
}

// The elements take the halves of Philox's words, one after the other, and each Variable words of its own.
TEST(StochasticRounding, HalvesOfWordsGoToElementsInOrder) {
  constexpr int64_t kCount = 1100;
  constexpr uint32_t kId = 9;
  const int64_t state[2] = {7, 11};
  std::vector<BFloat16> first(kCount, BFloat16(0.0F)), second = first;
  const float value = 1.0F + 0x1p-9F;
  UpdateRounded<2>(
      2, kCount, static_cast<const int64_t*>(state), kId,
      {KeptNumbers{KeptAs::kBFloat16, first.data(), kCount}, KeptNumbers{KeptAs::kBFloat16, second.data(), kCount}},
      [=](int64_t, float& a, float& b) SNUG_LAMBDA { a = b = value; });
  int64_t differ = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    for (const int variable : {0, 1}) {
      const RandomStream random(static_cast<const int64_t*>(state), MixKeys(kId, static_cast<uint64_t>(variable)));
      const uint32_t half = i % 2 == 0 ? random.Word(i / 2) & 0xffffU : random.Word(i / 2) >> 16;
      const BFloat16 found = variable == 0 ? first[i] : second[i];
      ASSERT_EQ(found.bits, RoundStochastically(value, half).bits) << "element " << i << ", variable " << variable;
    }
    differ += first[i].bits != second[i].bits;
  }
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace snug::core
