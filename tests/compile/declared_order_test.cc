#include "engine/compile/schedule/declared_order.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine/base/conflict.h"

namespace snug::core {
namespace {

bool Conflict(const Step& a, const Step& b) {
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) {
      if (Conflicts(x, y)) return true;
    }
  }
  return false;
}

// By Step: whether each earlier one comes before it, by all pairs that conflict.
std::vector<std::vector<bool>> ByEveryPair(const std::vector<Step>& steps) {
  std::vector<std::vector<bool>> before(steps.size(), std::vector<bool>(steps.size(), false));
  for (size_t b = 0; b < steps.size(); ++b) {
    for (size_t a = b; a-- > 0;) {
      if (!Conflict(steps[a], steps[b])) continue;
      before[b][a] = true;
      for (size_t c = 0; c < a; ++c) before[b][c] = before[b][c] || before[a][c];
    }
  }
  return before;
}

TEST(DeclaredOrder, IsThatOfAllPairsThatConflict) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    std::vector<Step> steps(40);
    for (Step& step : steps) {
      for (int64_t left = 1 + below(3); left > 0; --left) {
        const int64_t begin = below(64);
        step.accesses.push_back({{static_cast<int32_t>(below(2)), begin, begin + below(12)}, below(3) == 0});
      }
    }
    const DeclaredOrder order(steps);
    const std::vector<std::vector<bool>> expected = ByEveryPair(steps);
    int pairs = 0;
    for (size_t b = 0; b < steps.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        pairs += expected[b][a] ? 1 : 0;
        ASSERT_EQ(order.Before(static_cast<int32_t>(a), static_cast<int32_t>(b)), expected[b][a])
            << a << " before " << b << ", seed " << seed;
      }
    }
    EXPECT_GT(pairs, 0);
    EXPECT_LT(pairs, 780);
  }
}

}  // namespace
}  // namespace snug::core
