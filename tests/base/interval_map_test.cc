#include "engine/base/interval_map.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace snug::core {
namespace {

std::vector<int> Values(const IntervalMap<int>& map, int64_t begin, int64_t end) {
  std::vector<int> values;
  map.ForEach(begin, end, [&](int v) { values.push_back(v); });
  return values;
}

TEST(IntervalMap, AssignCutsWhatWasThere) {
  IntervalMap<int> map;
  map.Assign(0, 10, 1);
  map.Assign(3, 5, 2);
  EXPECT_EQ(Values(map, 0, 10), (std::vector<int>{1, 2, 1}));
  EXPECT_EQ(Values(map, 4, 5), std::vector<int>{2});
  EXPECT_EQ(Values(map, 5, 100), std::vector<int>{1});
  EXPECT_EQ(Values(map, 10, 100), std::vector<int>{});
  map.Assign(0, 10, 3);
  EXPECT_EQ(map.size(), 1U);
}

TEST(IntervalMap, UpdateFillsHoles) {
  IntervalMap<int> map;
  map.Assign(2, 4, 7);
  map.UpdateEach(0, 6, [](int& v) { ++v; });
  EXPECT_EQ(Values(map, 0, 6), (std::vector<int>{1, 8, 1}));
}

TEST(IntervalMap, EqualsAnArray) {
  std::mt19937 random(1);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  IntervalMap<int> map;
  std::array<int, 50> truth = {};  // 0: nothing there
  for (int step = 1; step < 20000; ++step) {
    const int begin = pick(50), end = begin + pick(51 - begin);
    switch (pick(4)) {
      case 0:
        map.Assign(begin, end, step);
        for (int i = begin; i < end; ++i) truth[i] = step;
        break;
      case 1:
        map.Erase(begin, end);
        for (int i = begin; i < end; ++i) truth[i] = 0;
        break;
      case 2:
        map.UpdateEach(begin, end, [](int& v) { v += 1000; });
        for (int i = begin; i < end; ++i) truth[i] += 1000;
        break;
      default:
        map.EraseIf([&](int v) { return v % 7 == 0; });
        for (int& v : truth) v = v % 7 == 0 ? 0 : v;
    }
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(Values(map, i, i + 1), truth[i] == 0 ? std::vector<int>{} : std::vector<int>{truth[i]}) << step;
    }
  }
}

}  // namespace
}  // namespace snug::core
