#include "engine/train/judgement/ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace snug::core {
namespace {

// By the definition: every pair is looked at.
double AreaByPairs(const std::vector<RankedRow>& rows) {
  double won = 0, pairs = 0;
  for (const RankedRow& a : rows) {
    for (const RankedRow& b : rows) {
      if (!a.positive || b.positive) continue;
      ++pairs;
      won += a.score > b.score ? 1 : a.score == b.score ? 0.5 : 0;
    }
  }
  return won / pairs;
}

TEST(Ranking, AreasWorkedOutByHand) {
  std::vector<RankedRow> right = {{3, true}, {2, true}, {1, false}};
  EXPECT_EQ(AreaUnderRoc(right), 1);
  std::vector<RankedRow> wrong = {{3, false}, {2, true}};
  EXPECT_EQ(AreaUnderRoc(wrong), 0);
  std::vector<RankedRow> tied = {{1, true}, {1, false}, {1, false}};
  EXPECT_EQ(AreaUnderRoc(tied), 0.5);
  // 0.9 beats both; 0.4 ties with one and beats the other: 3.5 of 4 pairs.
  std::vector<RankedRow> some = {{0.4, false}, {0.9, true}, {0.4, true}, {0.1, false}};
  EXPECT_EQ(AreaUnderRoc(some), 3.5 / 4);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<RankedRow> infinite = {{kInfinity, true}, {kInfinity, false}, {-kInfinity, false}};
  EXPECT_EQ(AreaUnderRoc(infinite), 1.5 / 2);
}

TEST(Ranking, WhereThereIsNothingToRankThereIsNoNumber) {
  std::vector<RankedRow> none, one_kind = {{1, true}, {2, true}}, other_kind = {{1, false}};
  std::vector<RankedRow> no_number = {{1, true}, {std::nan(""), false}};
  for (std::vector<RankedRow>* rows : {&none, &one_kind, &other_kind, &no_number}) {
    EXPECT_TRUE(std::isnan(AreaUnderRoc(*rows)));
    EXPECT_TRUE(RocCurve(*rows).empty());
  }
}

TEST(Ranking, IsWhatCountingEveryPairGives) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<RankedRow> rows(2 + random() % 40);
    const unsigned levels = 1 + random() % 12;  // few, so that there are ties
    for (RankedRow& row : rows) row = {static_cast<double>(random() % levels) / 4, random() % 3 == 0};
    rows[0].positive = true;
    rows[1].positive = false;
    const double by_pairs = AreaByPairs(rows);
    EXPECT_EQ(AreaUnderRoc(rows), by_pairs);
    const std::vector<RocPoint> curve = RocCurve(rows);
    ASSERT_GE(curve.size(), 2u);
    EXPECT_EQ(curve.front().false_positives, 0);
    EXPECT_EQ(curve.front().true_positives, 0);
    EXPECT_EQ(curve.back().false_positives, 1);
    EXPECT_EQ(curve.back().true_positives, 1);
    double area = 0;
    for (size_t i = 1; i < curve.size(); ++i) {
      EXPECT_LT(curve[i].threshold, curve[i - 1].threshold);
      area += (curve[i].false_positives - curve[i - 1].false_positives) *
              (curve[i].true_positives + curve[i - 1].true_positives) / 2;
      // The point is what lies at or above its threshold.
      double found = 0, positives = 0;
      for (const RankedRow& row : rows) {
        positives += row.positive;
        found += row.positive && row.score >= curve[i].threshold;
      }
      EXPECT_EQ(curve[i].true_positives, found / positives);
    }
    EXPECT_NEAR(area, by_pairs, 1e-12);
  }
}

}  // namespace
}  // namespace snug::core
