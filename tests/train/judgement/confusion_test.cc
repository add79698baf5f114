#include "engine/train/judgement/confusion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

namespace snug::core {
namespace {

std::vector<std::tuple<int64_t, int64_t, int64_t>> CellsOf(const Confusion& confusion) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> cells;
  for (const Confusion::Cell& cell : confusion.Confused()) cells.emplace_back(cell.label, cell.predicted, cell.count);
  return cells;
}

TEST(Confusion, SharesAreThoseWorkedOutByHand) {
  Confusion confusion(4);
  // Labels 0: right, right, taken for 1. Labels 1: right, taken for 0 twice, for none. Nothing of 2 and 3.
  for (const auto& [label, predicted] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 0}, {1, 0}, {1, Confusion::kNone}}) {
    confusion.Add(label, predicted);
  }
  const std::vector<Confusion::Class>& classes = confusion.classes();
  EXPECT_EQ(classes[0].precision(), 2.0 / 4);
  EXPECT_EQ(classes[0].recall(), 2.0 / 3);
  EXPECT_EQ(classes[0].f1(), 4.0 / 7);  // 2 p r / (p + r)
  EXPECT_EQ(classes[1].precision(), 1.0 / 2);
  EXPECT_EQ(classes[1].recall(), 1.0 / 4);
  EXPECT_EQ(classes[1].f1(), 2.0 / 6);
  EXPECT_EQ(confusion.accuracy(), 3.0 / 7);
  EXPECT_EQ(confusion.rows(), 7);
  EXPECT_EQ(confusion.unpredicted(), 1);
  EXPECT_EQ(confusion.Count(1, 0), 2);
  EXPECT_EQ(confusion.Count(0, 0), 2);
  EXPECT_EQ(confusion.Count(2, 3), 0);
  EXPECT_EQ(confusion.Count(1, Confusion::kNone), 1);
  EXPECT_EQ(CellsOf(confusion), (std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 0, 2}, {0, 1, 1}, {1, -1, 1}}));
}

TEST(Confusion, WhatThereIsNothingOfIsNoNumber) {
  Confusion confusion(3);
  confusion.Add(0, 1);
  const std::vector<Confusion::Class>& classes = confusion.classes();
  EXPECT_TRUE(std::isnan(classes[0].precision()));  // nothing was taken for it
  EXPECT_EQ(classes[0].recall(), 0);
  EXPECT_TRUE(std::isnan(classes[1].recall()));  // nothing is of it
  EXPECT_EQ(classes[1].precision(), 0);
  EXPECT_EQ(classes[1].f1(), 0);
  EXPECT_TRUE(std::isnan(classes[2].f1()));
  EXPECT_FALSE(classes[2].occurs());
  EXPECT_TRUE(std::isnan(Confusion(2).accuracy()));
  EXPECT_TRUE(std::isnan(Confusion(2).means().f1));
}

// A class that never occurs among the labels takes no part; one that nothing was taken for has the precision 0 there.
TEST(Confusion, MeansAreOverTheClassesThatHaveRows) {
  Confusion confusion(3);
  for (const auto& [label, predicted] : std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 2}, {1, 0}, {1, 0}}) {
    confusion.Add(label, predicted);
  }
  const Confusion::Means means = confusion.means();
  EXPECT_EQ(means.precision, (1.0 / 3 + 0) / 2);
  EXPECT_EQ(means.recall, (1.0 / 2 + 0) / 2);
  EXPECT_EQ(means.f1, (2.0 / 5 + 0) / 2);
}

}  // namespace
}  // namespace snug::core
