// Inputs that go to the device while the step before runs give the same bits as those that wait, whatever the device is
// doing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/session/random_feed.h"
#include "tests/cuda/host_kernels.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using testing::ElementsAre;

constexpr int kStepsAhead = 5;

absl::Status FeedStep(Session& session, int step) {
  return FeedRandom(session, OpRegistry::Builtin(), static_cast<uint64_t>(step));
}

// Trains with other data in every step.
absl::StatusOr<Result> TrainAhead(Session& session, const LoadedNetwork& loaded) {
  Result result;
  SNUG_RETURN_IF_ERROR(FeedStep(session, 0));
  for (int step = 0; step < kStepsAhead; ++step) {
    SNUG_RETURN_IF_ERROR(session.Begin());
    SNUG_RETURN_IF_ERROR(FeedStep(session, step + 1));
    SNUG_RETURN_IF_ERROR(session.UploadAhead());
    SNUG_RETURN_IF_ERROR(session.Finish());
    SNUG_ASSIGN_OR_RETURN(const double loss, LossOf(session, loaded));
    result.losses.push_back(loss);
  }
  result.state = StateBytes(session);
  return result;
}

absl::StatusOr<Result> TrainOneByOne(Session& session, const LoadedNetwork& loaded) {
  Result result;
  for (int step = 0; step < kStepsAhead; ++step) {
    SNUG_RETURN_IF_ERROR(FeedStep(session, step));
    SNUG_RETURN_IF_ERROR(session.Run());
    SNUG_ASSIGN_OR_RETURN(const double loss, LossOf(session, loaded));
    result.losses.push_back(loss);
  }
  result.state = StateBytes(session);
  return result;
}

std::unique_ptr<Session> NewOnFake(const LoadedNetwork& loaded, const How& how, FakeCuda& fake) {
  std::vector<Compiled> all;
  all.push_back(CompileForFake(loaded, how, fake).value());
  return NewSession(std::move(all), how, OpenFake(fake)).value();
}

TEST(UploadAhead, TrainsToTheSameBits) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  std::vector<Compiled> on_cpu;
  on_cpu.push_back(CompileForCpu(loaded, {}).value());
  const absl::StatusOr<Result> truth =
      TrainOneByOne(*NewSession(std::move(on_cpu), {.engine = ExecutorKind::kSerial}, nullptr).value(), loaded);
  ASSERT_TRUE(truth.ok()) << truth.status();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (How how : {How{}, How{.graph = false}, How{.streams = 2, .graph = false}, How{.keep_inputs = true}}) {
      how.ahead = true;
      FakeCuda fake({.seed = seed});
      const std::unique_ptr<Session> session = NewOnFake(loaded, how, fake);
      const absl::StatusOr<Result> found = TrainAhead(*session, loaded);
      ASSERT_TRUE(found.ok()) << how.ToString() << ": " << found.status();
      EXPECT_EQ(found->losses, truth->losses) << how.ToString() << ", seed " << seed;
      EXPECT_TRUE(found->state == truth->state) << how.ToString() << ", seed " << seed;
    }
  }
}

TEST(UploadAhead, AKeptInputThatDidNotArriveIsFedAgain) {
  FakeCuda fake;
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  const std::unique_ptr<Session> session = NewOnFake(loaded, {.keep_inputs = true, .ahead = true}, fake);
  ASSERT_TRUE(FeedStep(*session, 0).ok());
  ASSERT_TRUE(session->Run().ok());
  ASSERT_TRUE(session->Run().ok()) << "kept";
  ASSERT_TRUE(FeedStep(*session, 1).ok());
  ASSERT_TRUE(session->UploadAhead().ok());
  fake.FailCall(0, "cuMemcpyDtoDAsync");
  ASSERT_FALSE(session->Run().ok());
  // If this ran, it would be a step on what was fed first.
  const absl::Status status = session->Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("feed it again"));
  ASSERT_TRUE(FeedStep(*session, 1).ok());
  EXPECT_TRUE(session->Run().ok());
}

class OneUploadAhead : public testing::Test {
 protected:
  void SetUp() override { session_ = NewOnFake(loaded_, {.ahead = true}, fake_); }
  void Feed(int step) { ASSERT_TRUE(FeedStep(*session_, step).ok()); }
  // Returns the calls that `what` makes, without those that only turn to the device.
  std::vector<std::string> CallsOf(const std::function<absl::Status()>& what) {
    fake_.ClearCalls();
    const absl::Status status = what();
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> calls = fake_.calls();
    std::erase(calls, "cuCtxSetCurrent");
    return calls;
  }
  // Feeds what this seed gives, runs a step and returns its loss.
  double LossOfStep(int step) {
    Feed(step);
    EXPECT_TRUE(session_->Run().ok());
    return *session_->FetchScalar("loss");
  }

  FakeCuda fake_;
  const LoadedNetwork loaded_ = LoadModel("tests/data/tiny.pbtxt").value();
  std::unique_ptr<Session> session_;
};

TEST_F(OneUploadAhead, NeitherTheHostNorTheRunningStepWaits) {
  for (int step = 0; step < 2; ++step) LossOfStep(step);
  Feed(2);
  ASSERT_TRUE(session_->UploadAhead().ok());
  EXPECT_THAT(CallsOf([&] { return session_->Begin(); }),
              ElementsAre("cuStreamWaitEvent", "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync", "cuEventRecord",
                          "cuGraphLaunch", "cuMemcpyDtoHAsync"));
  Feed(3);
  EXPECT_THAT(CallsOf([&] { return session_->UploadAhead(); }),
              ElementsAre("cuStreamWaitEvent", "cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync", "cuEventRecord"));
  EXPECT_THAT(CallsOf([&] { return session_->Finish(); }), ElementsAre("cuStreamSynchronize"));
}

TEST_F(OneUploadAhead, TakesTheInputsBytesBesideThePlan) {
  const int64_t planned = session_->compiled().executable.memory.total_bytes();
  EXPECT_EQ(session_->upload_bytes(), 2 * 256) << "x and y, each from a multiple of 256 on";
  EXPECT_EQ(session_->state_bytes() + session_->step_bytes(), planned);
  EXPECT_EQ(fake_.used_bytes(), planned + session_->upload_bytes());
}

TEST_F(OneUploadAhead, VariablesWaitForTheStep) {
  Feed(1);
  const std::vector<double> before = *session_->GetVariable("a.weight");
  ASSERT_TRUE(session_->Begin().ok());
  EXPECT_NE(*session_->GetVariable("a.weight"), before);
  EXPECT_TRUE(session_->Finish().ok());
  EXPECT_TRUE(session_->Finish().ok()) << "nothing is under way";
}

// These steps are forward only, so every step on the same data has the same loss.
class OneForwardAhead : public OneUploadAhead {
 protected:
  void SetUp() override { session_ = NewOnFake(loaded_, {.training = false, .ahead = true}, fake_); }
};

TEST_F(OneForwardAhead, WhatIsFedAgainReplacesIt) {
  const double one = LossOfStep(1), seven = LossOfStep(7);
  EXPECT_NE(one, seven);
  Feed(7);
  ASSERT_TRUE(session_->UploadAhead().ok());
  EXPECT_EQ(LossOfStep(1), one);
  Feed(7);
  ASSERT_TRUE(session_->UploadAhead().ok());
  Feed(1);
  ASSERT_TRUE(session_->UploadAhead().ok());
  ASSERT_TRUE(session_->Run().ok());
  EXPECT_EQ(*session_->FetchScalar("loss"), one);
}

TEST_F(OneForwardAhead, OutputsWaitForTheStep) {
  const double one = LossOfStep(1);
  LossOfStep(7);
  Feed(1);
  ASSERT_TRUE(session_->Begin().ok());
  EXPECT_EQ(*session_->FetchScalar("loss"), one);
  EXPECT_TRUE(session_->Finish().ok());
}

// Runs program 1 before each step of program 0, and returns the losses of these steps.
std::vector<double> LossesBeside(const LoadedNetwork& loaded, bool ahead) {
  FakeCuda fake;
  std::vector<Compiled> both;
  both.push_back(CompileForFake(loaded, {}, fake).value());
  both.push_back(CompileForFake(loaded, {.training = false, .batch = 8}, fake).value());
  const std::unique_ptr<Session> session = NewSession(std::move(both), {.ahead = ahead}, OpenFake(fake)).value();
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    if (ahead) {
      EXPECT_TRUE(FeedStep(*session, step).ok() && session->UploadAhead().ok());
    }
    EXPECT_TRUE(session->program(1).Feed("x", std::vector<double>(8 * 6, 0.5)).ok());
    EXPECT_TRUE(session->program(1).Feed("y", std::vector<double>(8, 1)).ok());
    EXPECT_TRUE(session->UploadAhead(1).ok()) << "there is room for one step: this goes as it begins";
    EXPECT_TRUE(session->Run(1).ok());
    losses.push_back(*session->program(1).FetchScalar("loss"));
    if (!ahead) {
      EXPECT_TRUE(FeedStep(*session, step).ok());
    }
    const absl::Status status = session->Run();
    EXPECT_TRUE(status.ok()) << status;
    losses.push_back(*session->FetchScalar("loss"));
  }
  return losses;
}

TEST(UploadsAhead, OutlastTheStepsOfOtherPrograms) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  EXPECT_EQ(LossesBeside(loaded, true), LossesBeside(loaded, false));
}

TEST(UploadsAhead, AreDoneWithoutWhereTheyDoNotFit) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny.pbtxt").value();
  int64_t planned = 0;
  const auto upload_bytes = [&](const SessionOptions& given, int64_t device_bytes = int64_t{1} << 28) {
    FakeCuda fake({.device_bytes = device_bytes});
    Compiled compiled = CompileForFake(loaded, {}, fake).value();
    planned = compiled.executable.memory.total_bytes();
    SessionOptions options = given;
    options.upload_ahead = true;
    options.cuda_device = OpenFake(fake);
    const std::unique_ptr<Session> session = Session::Create(std::move(compiled), options).value();
    EXPECT_TRUE(FeedStep(*session, 0).ok());
    EXPECT_TRUE(session->UploadAhead().ok());
    EXPECT_TRUE(session->Run().ok());
    return session->upload_bytes();
  };
  const int64_t bytes = upload_bytes({});
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(upload_bytes({}, planned + bytes), bytes);
  EXPECT_EQ(upload_bytes({}, planned + bytes - 1), 0) << "the device is too small";
  EXPECT_EQ(upload_bytes({.memory_limit = planned + bytes}), bytes);
  EXPECT_EQ(upload_bytes({.memory_limit = planned + bytes - 1}), 0);
  EXPECT_EQ(upload_bytes({.engine = ExecutorKind::kSerial}), 0) << "the host waits after each op";
}

}  // namespace
}  // namespace snug::core
