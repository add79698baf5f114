// Several programs in one session: training and evaluation, over the same Variables and one step arena.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

absl::StatusOr<Compiled> CompileLenet(int64_t batch, bool training) {
  absl::StatusOr<LoadedNetwork> loaded = LoadModel("lenet");
  if (!loaded.ok()) return loaded.status();
  return Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                 {.batch = batch, .training = training, .threads = 1});
}

absl::Status FeedBoth(Session& session, size_t program, double shift) {
  for (const Endpoint& input : session.program(program).compiled().executable.inputs) {
    const auto n = static_cast<size_t>(input.type.num_elements());
    const size_t pixels = n / static_cast<size_t>(input.type.shape[0]);
    std::vector<double> values(n);  // the picture of a digit: every tenth pixel, from there on
    for (size_t i = 0; i < n; ++i) {
      const size_t digit = i / pixels % 10;
      values[i] = input.name == "label" ? static_cast<double>(digit) : i % pixels % 10 == digit ? 1 + shift : 0;
    }
    const absl::Status status = session.program(program).Feed(input.name, values);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

class Programs : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<Compiled> compiled;
    for (const auto& [batch, training] : {std::pair<int64_t, bool>{10, true}, {30, false}, {3, true}}) {
      absl::StatusOr<Compiled> one = CompileLenet(batch, training);
      ASSERT_TRUE(one.ok()) << one.status().message();
      alone_bytes_.push_back(one->executable.memory.step.placement.plan.arena_bytes);
      alone_state_ = std::max(alone_state_, one->executable.memory.state_plan.arena_bytes);
      compiled.push_back(*std::move(one));
    }
    auto session = Session::Create(std::move(compiled), {.seed = 5});
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = *std::move(session);
  }

  double LossOf(size_t program, double shift) {
    EXPECT_TRUE(FeedBoth(*session_, program, shift).ok());
    const absl::Status status = session_->Run(program);
    EXPECT_TRUE(status.ok()) << status.message();
    return *session_->program(program).FetchScalar("loss");
  }

  std::vector<int64_t> alone_bytes_;
  int64_t alone_state_ = 0;
  std::unique_ptr<Session> session_;
};

TEST_F(Programs, TakeOneArenaAsLargeAsTheLargestAndOneSetOfVariables) {
  EXPECT_EQ(session_->step_bytes(), *std::max_element(alone_bytes_.begin(), alone_bytes_.end()));
  EXPECT_EQ(session_->state_bytes(), alone_state_);  // all that evaluation reads, training has
}

TEST_F(Programs, EvaluationSeesWhatTrainingLearnt) {
  const double untrained = LossOf(1, 0);
  EXPECT_EQ(LossOf(1, 0), untrained);
  for (int i = 0; i < 60; ++i) LossOf(0, 0);
  EXPECT_LT(LossOf(1, 0), untrained);
}

TEST_F(Programs, TrainAsTheyDoAlone) {
  auto alone = Session::Create(*CompileLenet(10, true), {.seed = 5});
  ASSERT_TRUE(alone.ok());
  for (int i = 0; i < 5; ++i) {
    const double together = LossOf(0, 0.01 * i);
    LossOf(1, 1);  // evaluation changes nothing
    ASSERT_TRUE(FeedBoth(**alone, 0, 0.01 * i).ok());
    ASSERT_TRUE((*alone)->Run().ok());
    EXPECT_EQ(*(*alone)->FetchScalar("loss"), together);
  }
  const double before = LossOf(0, 0);
  LossOf(2, 0);  // a short batch trains the same Variables
  EXPECT_NE(LossOf(0, 0), before);
}

TEST_F(Programs, LoseWhatLiesInTheArenaWhenAnotherRuns) {
  LossOf(0, 0);
  ASSERT_TRUE(FeedBoth(*session_, 0, 0).ok());
  LossOf(1, 0);
  EXPECT_THAT(std::string(session_->FetchScalar("loss").status().message()), HasSubstr("another program"));
  EXPECT_THAT(std::string(session_->Run(0).message()), HasSubstr("feed it again"));
}

TEST(ProgramsWithConstants, OfTheSameContentsHaveAPlaceForEach) {
  const char* text = R"(
    input { name: "x" shape { dim: 4 } }
    layer { name: "fc" input: "x" dense { units: 4 } }
    layer { name: "c1" constant { value: 0.75 } }
    layer { name: "a" input: "fc" input: "c1" mul {} }
    layer { name: "c2" constant { value: 0.75 } }
    layer { name: "b" input: "a" input: "c2" mul {} }
    layer { name: "loss" input: "b" square {} } objective: "loss")";
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<Compiled> compiled;
  for (const bool training : {true, false}) {
    compiled.push_back(*Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                {.batch = 2, .training = training, .threads = 1}));
  }
  auto session = Session::Create(std::move(compiled), {.seed = 5});
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (const size_t program : {0, 1}) {
    ASSERT_TRUE((*session)->program(program).Feed("x", std::vector<double>(8, 1)).ok());
    EXPECT_TRUE((*session)->Run(program).ok());
  }
}

TEST(ProgramsThatDisagree, AreRefused) {
  const char* text = R"(
    input { name: "x" shape { dim: 4 } } input { name: "t" shape { dim: %d } }
    layer { name: "y" input: "x" dense { units: %d } }
    layer { name: "loss" input: "y" input: "t" mean_squared_error {} } objective: "loss")";
  std::vector<Compiled> compiled;
  for (const int units : {2, 3}) {
    char network[400];
    std::snprintf(network, sizeof(network), text, units, units);
    const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(network, "test");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    compiled.push_back(*Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {}));
  }
  const auto session = Session::Create(std::move(compiled), {});
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("variable \"y.weight\" is"));
}

}  // namespace
}  // namespace snug::core
