#include "engine/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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

Metrics Loss(double loss) { return {{"loss", loss}, {"accuracy", -loss}}; }

TEST(Progress, FollowsNothingUnlessAsked) {
  Progress progress{proto::Training()};
  EXPECT_TRUE(progress.Check({}).ok());
  for (int64_t step = 1; step < 50; ++step) EXPECT_FALSE(progress.Evaluated(step, Loss(1)).best);
  EXPECT_FALSE(progress.ended());
  EXPECT_EQ(progress.rate_factor(), 1);
  EXPECT_TRUE(progress.ToMetadata().empty());
}

TEST(Progress, TheLeastLossAndTheMostOfOthersIsBest) {
  for (const char* metric : {"loss", "accuracy"}) {
    Progress progress(Training(metric, 2));
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

TEST(Progress, TheRateFallsAfterItsPatienceAndNotBelowItsEnd) {
  proto::Training training;
  proto::PlateauRate& plateau = *training.mutable_schedule()->mutable_plateau();
  plateau.set_factor(0.5);
  plateau.set_patience(2);
  plateau.set_final(0.2);
  Progress progress(training);
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
    Progress progress(training);
    for (int64_t step = 1; step <= 3; ++step) progress.Evaluated(step, Loss(1));
    ASSERT_TRUE(progress.ended());
    EXPECT_TRUE(Progress(training).WasKept(progress.ToMetadata()));
    EXPECT_FALSE(Progress(Training("accuracy", 2)).WasKept(progress.ToMetadata()));
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
  Progress whole(training);
  const std::vector<double> losses = {0.1 + 0.2, 0.7, 0.3, 1.0 / 3, 0.29999999999999998, 0.5, 0.5, 0.5, 0.5, 0.5};
  for (size_t i = 0; i < losses.size(); ++i) {
    Progress resumed(training);
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
  Progress other(Training("accuracy", 4));  // what was best by another metric says nothing
  ASSERT_TRUE(other.Restore(whole.ToMetadata()).ok());
  EXPECT_FALSE(other.best_value().has_value());
}

TEST(Progress, MetadataThatAreNoNumbersAreAnErrorAndChangeNothing) {
  Progress progress(Training("loss", 4));
  progress.Evaluated(1, Loss(1));
  auto metadata = progress.ToMetadata();
  metadata["best.value"] = "much";
  const absl::Status status = progress.Restore(metadata);
  EXPECT_THAT(std::string(status.message()), HasSubstr("metadata \"best.value\": expected a number, found \"much\""));
  EXPECT_EQ(progress.best_value(), 1);
}

TEST(Progress, UnknownMetricsAreRefusedWithThoseThereAre) {
  const std::vector<std::string> metrics = {"loss", "accuracy"};
  EXPECT_TRUE(Progress(Training("accuracy", 1)).Check(metrics).ok());
  const auto message = [&](const proto::Training& training, absl::Span<const std::string> there_are) {
    return std::string(Progress(training).Check(there_are).message());
  };
  EXPECT_EQ(message(Training("acuracy", 1), metrics),
            "training.best.metric: expected a metric of the evaluation, loss or accuracy, found \"acuracy\"");
  EXPECT_THAT(message(Training("loss", 1), {}), HasSubstr("expected data to evaluate with, found none"));
  EXPECT_THAT(message(Training("", 1), metrics), HasSubstr("training.best.patience: expected training.best.metric"));
  proto::Training plateau;
  plateau.mutable_schedule()->mutable_plateau()->set_metric("f1");
  EXPECT_THAT(message(plateau, metrics), HasSubstr("training.schedule.plateau.metric: expected a metric"));
}

}  // namespace
}  // namespace snug::core
