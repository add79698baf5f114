#include "engine/train/data/permutation.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace snug::core {
namespace {

TEST(Permutation, OfEverySizeTakesEachOnce) {
  for (int64_t n = 1; n < 300; ++n) {
    const Permutation permutation(n, static_cast<uint64_t>(n));
    std::vector<int> seen(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t j = permutation(i);
      ASSERT_TRUE(j >= 0 && j < n) << n;
      ++seen[static_cast<size_t>(j)];
    }
    for (const int count : seen) ASSERT_EQ(count, 1) << n;
  }
}

TEST(Permutation, LargeOnesStayInside) {
  for (const int64_t n : {int64_t{1} << 33, (int64_t{1} << 40) + 12345}) {
    const Permutation permutation(n, 1);
    for (int64_t i = 0; i < 1000; ++i) {
      const int64_t j = permutation(n - 1 - i);
      EXPECT_TRUE(j >= 0 && j < n);
    }
  }
}

// Of the 24 orders of four, and of the pairs (first, second) of fifty, each comes about as often as the others.
TEST(Permutation, IsUniform) {
  std::map<std::vector<int64_t>, int> orders;
  constexpr int kKeys = 24000;
  for (int key = 0; key < kKeys; ++key) {
    const Permutation permutation(4, static_cast<uint64_t>(key));
    ++orders[{permutation(0), permutation(1), permutation(2), permutation(3)}];
  }
  EXPECT_EQ(orders.size(), 24U);
  double chi2 = 0;
  for (const auto& [order, count] : orders) chi2 += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi2, 60);  // 23 degrees of freedom: 50 is exceeded once in a thousand cases

  std::vector<int> pairs(50 * 50);
  for (int key = 0; key < 49 * 50 * 20; ++key) {
    const Permutation permutation(50, static_cast<uint64_t>(key));
    ++pairs[static_cast<size_t>(permutation(0) * 50 + permutation(1))];
  }
  chi2 = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i / 50 != i % 50) chi2 += (pairs[i] - 20.0) * (pairs[i] - 20.0) / 20;
  }
  EXPECT_LT(chi2, 2449 + 4 * 70);  // the deviation is 70
}

}  // namespace
}  // namespace snug::core
