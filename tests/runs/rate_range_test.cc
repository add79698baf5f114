#include "tools/runs/rate_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace snug::core::runs {
namespace {

// A loss that falls with the learning rate, fastest at `falls_at`, and explodes behind `breaks_at`.
class Valley {
 public:
  Valley(double falls_at, double breaks_at, double noise) : falls_at_(falls_at), breaks_at_(breaks_at), noise_(noise) {}

  double At(double rate) {
    const double x = std::log10(rate / falls_at_);
    const double fall = 2 / (1 + std::exp(-4 * x));
    const double explosion = rate > breaks_at_ ? std::pow(rate / breaks_at_, 4) - 1 : 0;
    return 2.3 - fall + explosion + noise_ * normal_(random_);
  }

 private:
  const double falls_at_, breaks_at_, noise_;
  std::mt19937 random_{3};
  std::normal_distribution<double> normal_;
};

RateRange Swept(Valley valley, const RateRange::Options& options) {
  RateRange range(options);
  for (int64_t i = 0; i < options.steps && !range.diverged(); ++i) range.Add(valley.At(range.RateOf(i)));
  return range;
}

TEST(RateRange, GrowsByOneFactorFromEndToEnd) {
  const RateRange range({.from = 1e-4, .to = 1, .steps = 5});
  for (const int64_t step : {0, 1, 2, 3, 4}) EXPECT_NEAR(range.RateOf(step), std::pow(10.0, step - 4), 1e-9);
}

TEST(RateRange, SuggestsWhereTheLossFallsFastest) {
  for (const double falls_at : {1e-4, 1e-2, 0.1}) {
    for (const double noise : {0.0, 0.05, 0.1}) {
      const RateRange range = Swept(Valley(falls_at, 20 * falls_at, noise), {.steps = 200});
      EXPECT_TRUE(range.diverged());
      EXPECT_LT(range.points(), 200u);
      const auto found = range.Suggest();
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_GT(found->rate, falls_at / 3) << noise;
      EXPECT_LT(found->rate, falls_at * 3) << noise;
      EXPECT_FALSE(found->still_falls);
      EXPECT_NE(found->reason.find("diverges"), std::string::npos);
    }
  }
}

TEST(RateRange, KeepsBelowTheRateOfTheLeastLoss) {
  // It falls only shortly before it breaks.
  RateRange range({.from = 1e-3, .to = 10, .steps = 100});
  for (int64_t i = 0; i < 100 && !range.diverged(); ++i) range.Add(i < 50 ? 3 : i < 60 ? 3 - 0.17 * (i - 50) : 50);
  const auto found = range.Suggest();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_LE(found->rate, 1.05 * found->least / 3);
  EXPECT_TRUE(found->by_least);
}

TEST(RateRange, SaysThatALargerRateMayBeBetter) {
  const RateRange range = Swept(Valley(0.5, 1000, 0.02), {.from = 1e-4, .to = 1, .steps = 100});
  EXPECT_FALSE(range.diverged());
  const auto found = range.Suggest();
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->still_falls);
}

TEST(RateRange, SuggestsNothingFromNoise) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(2.3, 0.1);
  int suggested = 0;
  for (int sweep = 0; sweep < 50; ++sweep) {
    RateRange range({.steps = 200});
    for (int i = 0; i < 200 && !range.diverged(); ++i) range.Add(normal(random));
    const auto found = range.Suggest();
    suggested += found.ok();
    if (!found.ok()) {
      EXPECT_TRUE(absl::IsFailedPrecondition(found.status()));
      EXPECT_NE(found.status().message().find("never falls clearly"), absl::string_view::npos);
    }
  }
  EXPECT_LE(suggested, 10);
}

TEST(RateRange, SaysWhereToBeginWhenAllDiverges) {
  RateRange range({.steps = 200});
  for (int i = 0; i < 15; ++i) range.Add(2);
  range.Add(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(range.diverged());
  EXPECT_NE(range.Suggest().status().message().find("begin lower, with --from=1e-09"), absl::string_view::npos)
      << range.Suggest().status().message();
}

TEST(RateRange, ALossThatIsNeverFiniteIsNoMatterOfTheRate) {
  RateRange range({.steps = 200});
  range.Add(std::numeric_limits<double>::quiet_NaN());
  const std::string said(range.Suggest().status().message());
  EXPECT_NE(said.find("the loss is not finite before the first update"), std::string::npos) << said;
  EXPECT_EQ(said.find("--from"), std::string::npos) << said;
}

TEST(RateRange, WhereItRisesFromTheBeginningItIsToBeginLower) {
  RateRange range({.from = 10, .to = 1e5, .steps = 200});
  for (int i = 0; i < 200 && !range.diverged(); ++i) range.Add(i < 12 ? 2.3 : 2.3 + 0.5 * (i - 12));
  EXPECT_TRUE(range.diverged());
  EXPECT_GT(range.points(), 22u);
  const std::string said(range.Suggest().status().message());
  EXPECT_NE(said.find("It diverges from the beginning: begin lower, with --from=1e-02"), std::string::npos) << said;
}

TEST(RateRange, TellsTheRateOfTheStepThatDiverged) {
  for (const double last : {1e6, std::numeric_limits<double>::infinity()}) {
    RateRange range({.from = 1e-3, .to = 10, .steps = 100});
    for (int i = 0; i < 100 && !range.diverged(); ++i) range.Add(i < 60 ? 3 - 0.04 * i : last);
    EXPECT_TRUE(range.diverged());
    const auto found = range.Suggest();
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_NE(found->reason.find("diverges at 0.27"), std::string::npos) << found->reason;  // RateOf(60)
  }
}

TEST(RateRange, RatesAreFiniteHoweverFarTheEndsAreApart) {
  const RateRange range({.from = 1e-6, .to = 1e308, .steps = 200});
  double before = 0;
  for (int64_t step = 0; step < 200; ++step) {
    EXPECT_GT(range.RateOf(step), before);
    before = range.RateOf(step);
  }
  EXPECT_LE(before, 1e308);
  EXPECT_EQ(range.RateOf(0), 1e-6);
}

TEST(RateRange, OneLossThatExplodesSpoilsNothingBeforeIt) {
  RateRange range({.steps = 100});
  for (int i = 0; i < 80; ++i) range.Add(i < 40 ? 2 : 2 - 0.04 * (i - 40));
  const std::vector<double> before = range.Smoothed();
  range.Add(1e30);
  const std::vector<double> after = range.Smoothed();
  EXPECT_TRUE(range.diverged());
  for (size_t i = 0; i < 60; ++i) EXPECT_NEAR(after[i], before[i], 0.05) << i;
}

TEST(RateRange, ALossBelowNothingIsNoReasonToStop) {
  RateRange range({.steps = 100});
  for (int i = 0; i < 100; ++i) range.Add(0.5 - 0.02 * i);
  EXPECT_FALSE(range.diverged());
  EXPECT_TRUE(range.Suggest().ok()) << range.Suggest().status().message();
}

}  // namespace
}  // namespace snug::core::runs
