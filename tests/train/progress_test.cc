#include "engine/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "proto/train.pb.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

proto::Training Training(const std::string& metric, int64_t patience) {
  proto::Training training;
  training.mutable_best()->set_metric(metric);
  training.mutable_best()->set_patience(patience);
  return training;
}

const std::vector<KnownMetric> kMetrics = {{"loss", Better::kLess}, {"accuracy", Better::kMore}};

Progress ProgressOf(const proto::Training& training) { return {training, kMetrics}; }

Metrics Loss(double loss) { return {{"loss", loss}, {"accuracy", -loss}}; }

TEST(Progress, FollowsNothingUnlessAsked) {
  Progress progress(proto::Training(), {});
  EXPECT_TRUE(progress.Check().ok());
  for (int64_t step = 1; step < 50; ++step) EXPECT_FALSE(progress.Evaluated(step, Loss(1)).best);
  EXPECT_FALSE(progress.ended());
  EXPECT_EQ(progress.rate_factor(), 1);
  EXPECT_TRUE(progress.ToMetadata().empty());
}

TEST(Progress, TheLeastLossAndTheMostOfOthersIsBest) {
  for (const char* metric : {"loss", "accuracy"}) {
    Progress progress = ProgressOf(Training(metric, 2));
    EXPECT_TRUE(progress.Evaluated(1, Loss(3)).best);
    EXPECT_FALSE(progress.Evaluated(2, Loss(3)).best);  // as good is no better
    EXPECT_TRUE(progress.Evaluated(3, Loss(2)).best);
    EXPECT_FALSE(progress.Evaluated(4, Loss(NAN)).best);
    EXPECT_FALSE(progress.ended());
    EXPECT_FALSE(progress.Evaluated(5, Loss(2.5)).best);
    EXPECT_TRUE(progress.ended());
    EXPECT_EQ(progress.best_step(), 3);
    EXPECT_EQ(std::abs(*progress.best_value()), 2);
  }
}

TEST(Progress, WhatTheUserSaysOfAMetricHolds) {
  const std::vector<KnownMetric> metrics = {{"loss", Better::kLess}, {"size", Better::kUnknown}};
  const Progress unsaid(Training("size", 2), metrics);
  EXPECT_EQ(unsaid.Check().message(),
            "training.best.metric: of \"size\" it is not known whether the least or the most is best, as no loss or "
            "accuracy makes it: expected size:least or size:most");
  for (const double sign : {1.0, -1.0}) {
    Progress progress(Training(sign > 0 ? "size:most" : "size:least", 2), metrics);
    EXPECT_TRUE(progress.Check().ok());
    EXPECT_EQ(progress.best_metric(), "size");
    EXPECT_EQ(progress.metrics()[1].better, sign > 0 ? Better::kMore : Better::kLess);
    EXPECT_TRUE(progress.Evaluated(1, {{"size", 3}}).best);
    EXPECT_FALSE(progress.Evaluated(2, {{"size", 3 - sign}}).best);
    EXPECT_TRUE(progress.Evaluated(3, {{"size", 3 + sign}}).best);
  }
}

TEST(Progress, WhatWasBestTheOtherWayRoundDoesNotCount) {
  const std::vector<KnownMetric> metrics = {{"loss", Better::kLess}, {"error", Better::kLess}};
  Progress before(Training("error:most", 2), metrics);
  before.Evaluated(1, {{"error", 5}});
  Progress after(Training("error", 2), metrics);
  ASSERT_TRUE(after.Restore(before.ToMetadata()).ok());
  EXPECT_FALSE(after.best_value().has_value());
  // A version that knew no directions took the most of all but the loss.
  auto metadata = before.ToMetadata();
  metadata.erase("best.better");
  EXPECT_FALSE(after.WasKept(metadata));
  EXPECT_TRUE(before.WasKept(metadata));
  Progress loss(Training("loss", 2), metrics);
  loss.Evaluated(1, {{"loss", 2}});
  metadata = loss.ToMetadata();
  metadata.erase("best.better");
  EXPECT_TRUE(loss.WasKept(metadata));
}

TEST(Progress, TheRateFallsAfterItsPatienceAndNotBelowItsEnd) {
  proto::Training training;
  proto::PlateauRate& plateau = *training.mutable_schedule()->mutable_plateau();
  plateau.set_factor(0.5);
  plateau.set_patience(2);
  plateau.set_final(0.2);
  Progress progress = ProgressOf(training);
  std::vector<double> factors;
  for (int64_t step = 1; step <= 9; ++step) {
    progress.Evaluated(step, Loss(1));
    factors.push_back(progress.rate_factor());
  }
  EXPECT_EQ(factors, (std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2}));
}

TEST(Progress, BeginsAnewWithOtherData) {
  proto::Training training = Training("loss", 2);
  training.mutable_schedule()->mutable_plateau()->set_patience(2);
  for (const bool best_counts : {true, false}) {
    Progress progress = ProgressOf(training);
    for (int64_t step = 1; step <= 3; ++step) progress.Evaluated(step, Loss(1));
    ASSERT_TRUE(progress.ended());
    EXPECT_TRUE(ProgressOf(training).WasKept(progress.ToMetadata()));
    EXPECT_FALSE(ProgressOf(Training("accuracy", 2)).WasKept(progress.ToMetadata()));
    const double fallen = progress.rate_factor();
    ASSERT_LT(fallen, 1);
    progress.BeginAnew(best_counts);
    EXPECT_FALSE(progress.ended());
    EXPECT_EQ(progress.rate_factor(), fallen);
    EXPECT_EQ(progress.best_value().has_value(), best_counts);
    EXPECT_EQ(progress.best_step(), best_counts ? 1 : 0);
    EXPECT_EQ(progress.Evaluated(4, Loss(2)).best, !best_counts);
    EXPECT_FALSE(progress.Evaluated(5, Loss(2)).rate_fell && !best_counts);
    EXPECT_EQ(progress.ended(), best_counts);
  }
}

TEST(Progress, GoesOnFromItsMetadataBitForBit) {
  proto::Training training = Training("loss", 4);
  training.mutable_schedule()->mutable_plateau()->set_factor(1.0 / 3);
  training.mutable_schedule()->mutable_plateau()->set_patience(2);
  Progress whole = ProgressOf(training);
  const std::vector<double> losses = {0.1 + 0.2, 0.7, 0.3, 1.0 / 3, 0.29999999999999998, 0.5, 0.5, 0.5, 0.5, 0.5};
  for (size_t i = 0; i < losses.size(); ++i) {
    Progress resumed = ProgressOf(training);
    ASSERT_TRUE(resumed.Restore(whole.ToMetadata()).ok());
    EXPECT_EQ(resumed.ToMetadata(), whole.ToMetadata());
    const auto a = whole.Evaluated(static_cast<int64_t>(i), Loss(losses[i]));
    const auto b = resumed.Evaluated(static_cast<int64_t>(i), Loss(losses[i]));
    EXPECT_EQ(a.best, b.best);
    EXPECT_EQ(a.rate_fell, b.rate_fell);
    EXPECT_EQ(resumed.ToMetadata(), whole.ToMetadata());
    EXPECT_EQ(resumed.rate_factor(), whole.rate_factor());
  }
  EXPECT_TRUE(whole.ended());
  Progress other = ProgressOf(Training("accuracy", 4));  // what was best by another metric says nothing
  ASSERT_TRUE(other.Restore(whole.ToMetadata()).ok());
  EXPECT_FALSE(other.best_value().has_value());
}

TEST(Progress, MetadataThatAreNoNumbersAreAnErrorAndChangeNothing) {
  Progress progress = ProgressOf(Training("loss", 4));
  progress.Evaluated(1, Loss(1));
  auto metadata = progress.ToMetadata();
  metadata["best.value"] = "much";
  const absl::Status status = progress.Restore(metadata);
  EXPECT_THAT(std::string(status.message()), HasSubstr("metadata \"best.value\": expected a number, found \"much\""));
  EXPECT_EQ(progress.best_value(), 1);
}

TEST(Progress, UnknownMetricsAreRefusedWithThoseThereAre) {
  EXPECT_TRUE(ProgressOf(Training("accuracy", 1)).Check().ok());
  const auto message = [&](const proto::Training& training, const std::vector<KnownMetric>& there_are) {
    return std::string(Progress(training, there_are).Check().message());
  };
  EXPECT_EQ(message(Training("acuracy", 1), kMetrics),
            "training.best.metric: expected a metric of the evaluation, loss or accuracy, found \"acuracy\"");
  EXPECT_THAT(message(Training("loss", 1), {}), HasSubstr("expected data to evaluate with, found none"));
  EXPECT_THAT(message(Training("", 1), kMetrics), HasSubstr("training.best.patience: expected training.best.metric"));
  proto::Training plateau;
  plateau.mutable_schedule()->mutable_plateau()->set_metric("f1");
  EXPECT_THAT(message(plateau, kMetrics), HasSubstr("training.schedule.plateau.metric: expected a metric"));
  EXPECT_THAT(std::string(Progress(plateau, kMetrics).Check("they are too many").message()),
              HasSubstr("loss or accuracy, found \"f1\"; they are too many"));
}

}  // namespace
}  // namespace snug::core
