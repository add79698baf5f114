#include <gtest/gtest.h>

#include "engine/train/training_options.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

TEST(Schedule, WithoutAnyTheRateStays) {
  for (const int64_t step : {0, 5, 99}) EXPECT_EQ(LearningRateFactor(proto::Schedule(), step, 100), 1);
}

TEST(Schedule, WarmUpRisesInEqualSteps) {
  proto::Schedule schedule;
  schedule.set_warm_up(4);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 0, 10), 0.25);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 2, 10), 0.75);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 3, 10), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 4, 10), 1);
}

TEST(Schedule, WarmUpLongerThanTheTrainingEndsWithIt) {
  proto::Schedule schedule;
  schedule.set_warm_up(100);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 4, 5), 1);
}

TEST(Schedule, StaircaseFallsAtEachShare) {
  proto::Schedule schedule;
  schedule.mutable_staircase()->add_at(0.5);
  schedule.mutable_staircase()->add_at(0.75);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 49, 101), 1);
  EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 50, 101), 0.1);
  EXPECT_NEAR(LearningRateFactor(schedule, 75, 101), 0.01, 1e-15);
}

TEST(Schedule, CosineAndLinearReachTheirEnds) {
  proto::Schedule cosine, linear;
  cosine.mutable_cosine()->set_final(0.1);
  linear.mutable_linear()->set_final(0.1);
  for (const proto::Schedule& schedule : {cosine, linear}) {
    EXPECT_DOUBLE_EQ(LearningRateFactor(schedule, 0, 101), 1);
    EXPECT_NEAR(LearningRateFactor(schedule, 50, 101), 0.55, 1e-12);
    EXPECT_NEAR(LearningRateFactor(schedule, 100, 101), 0.1, 1e-12);
  }
}

TEST(Schedule, OneCycleRisesToItsPeakAndFalls) {
  proto::Schedule schedule;
  schedule.mutable_one_cycle()->set_peak_at(0.25);
  EXPECT_NEAR(LearningRateFactor(schedule, 0, 101), 0.04, 1e-12);
  EXPECT_NEAR(LearningRateFactor(schedule, 25, 101), 1, 1e-12);
  EXPECT_NEAR(LearningRateFactor(schedule, 100, 101), 1e-4, 1e-12);
}

TEST(Schedule, ATrainingOfOneStepHasARate) {
  proto::Schedule schedule;
  schedule.mutable_cosine();
  EXPECT_EQ(LearningRateFactor(schedule, 0, 1), 1);
}

}  // namespace
}  // namespace snug::core
