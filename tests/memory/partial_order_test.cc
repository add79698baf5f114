#include "memory/partial_order.h"

#include <gtest/gtest.h>

#include <random>

namespace snug::core::memory {
namespace {

TEST(PartialOrder, PathsOnly) {
  // 0 -> 1 -> 3, 0 -> 2 -> 3
  const absl::StatusOr<PartialOrder> order = PartialOrder::Create(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  ASSERT_TRUE(order.ok());
  EXPECT_TRUE(order->Before(0, 3));
  EXPECT_FALSE(order->Before(3, 0));
  EXPECT_FALSE(order->Before(1, 2));
  EXPECT_FALSE(order->Before(2, 1));
  EXPECT_FALSE(order->Before(1, 1));
  EXPECT_EQ(order->chains(), 2);
}

TEST(PartialOrder, RefusesCyclesAndUnknownTasks) {
  EXPECT_FALSE(PartialOrder::Create(3, {{0, 1}, {1, 2}, {2, 1}}).ok());
  EXPECT_FALSE(PartialOrder::Create(3, {{0, 3}}).ok());
  EXPECT_FALSE(PartialOrder::Create(3, {{-1, 2}}).ok());
  EXPECT_TRUE(PartialOrder::Create(0, {}).ok());
}

TEST(PartialOrder, TasksGiveTheirDataEdgesAndTheFurtherOnes) {
  const Tasks tasks{.names = {"a", "b", "c"},
                    .values = {{.name = "v", .producer = 0, .readers = {1}},
                               {.name = "given", .readers = {2}},
                               {.name = "state", .producer = 1, .readers = {0}, .resident = true}},
                    .edges = {{1, 2}, {0, 1}}};
  EXPECT_EQ(PrecedenceOf(tasks), (std::vector<Edge>{{0, 1}, {1, 2}}));
}

TEST(PartialOrder, EqualsTheClosureOnRandomGraphs) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const auto n = 1 + static_cast<int32_t>(random() % 40);
    const uint32_t sparse = 2 + random() % 30;
    // Ids are not a legal sequence: task t stands at rank[t].
    std::vector<int32_t> rank(static_cast<size_t>(n));
    for (int32_t t = 0; t < n; ++t) rank[static_cast<size_t>(t)] = t;
    std::shuffle(rank.begin(), rank.end(), random);
    std::vector<Edge> edges;
    std::vector<std::vector<bool>> reaches(static_cast<size_t>(n), std::vector<bool>(static_cast<size_t>(n), false));
    for (size_t a = 0; a < rank.size(); ++a) {
      for (size_t b = 0; b < rank.size(); ++b) {
        if (rank[a] >= rank[b] || random() % sparse != 0) continue;
        edges.emplace_back(static_cast<int32_t>(a), static_cast<int32_t>(b));
        reaches[a][b] = true;
      }
    }
    for (size_t via = 0; via < rank.size(); ++via) {
      for (size_t a = 0; a < rank.size(); ++a) {
        for (size_t b = 0; b < rank.size(); ++b) {
          if (reaches[a][via] && reaches[via][b]) reaches[a][b] = true;
        }
      }
    }
    const absl::StatusOr<PartialOrder> order = PartialOrder::Create(n, edges);
    ASSERT_TRUE(order.ok());
    for (int32_t a = 0; a < n; ++a) {
      for (int32_t b = 0; b < n; ++b) {
        ASSERT_EQ(order->Before(a, b), reaches[static_cast<size_t>(a)][static_cast<size_t>(b)]) << "round " << round;
      }
    }
  }
}

TEST(PartialOrder, AHundredThousandTasksInFewChains) {
  // Three long chains, tied together here and there, and a leaf at every task of the first.
  std::vector<Edge> edges;
  constexpr int32_t kLength = 25000;
  for (int32_t i = 0; i + 1 < kLength; ++i) {
    for (const int32_t chain : {0, 1, 2}) edges.emplace_back(chain * kLength + i, chain * kLength + i + 1);
    if (i % 100 == 0) edges.emplace_back(i, kLength + i + 1);
    edges.emplace_back(i, 3 * kLength + i);
  }
  const absl::StatusOr<PartialOrder> order = PartialOrder::Create(4 * kLength, edges);
  ASSERT_TRUE(order.ok());
  EXPECT_TRUE(order->Before(0, kLength + 5));
  EXPECT_FALSE(order->Before(kLength, 5));
  EXPECT_TRUE(order->Before(7, 3 * kLength + 8));
  EXPECT_FALSE(order->Before(9, 3 * kLength + 8));
}

}  // namespace
}  // namespace snug::core::memory
