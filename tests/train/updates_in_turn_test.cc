// A training whose steps make two updates, one after the other.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/trainer.h"
#include "engine/train/training_options.h"
#include "proto/text_loader.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two classifiers of digits, of which the second reads what the first has learnt in the same step.
std::string Classifiers(const std::string& first_optimizer) {
  return absl::StrCat(R"(
    name: "two"
    input { name: "image" shape { dim: 784 } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "a.fc" input: "image" dense { units: 24 } }
    layer { name: "a.act" input: "a.fc" tanh {} }
    layer { name: "a.out" input: "a.act" dense { units: 10 } }
    layer { name: "again.fc" input: "image" dense { units: 24 }
            param { name: "weight" tie: "a.fc.weight" } param { name: "bias" tie: "a.fc.bias" } }
    layer { name: "again.act" input: "again.fc" tanh {} }
    layer { name: "b.drop" input: "again.act" dropout { rate: 0.1 } }
    layer { name: "b.out" input: "b.drop" dense { units: 10 } }
    layer { name: "first" input: "a.out" input: "label" softmax_cross_entropy {} }
    layer { name: "second" input: "b.out" input: "label" softmax_cross_entropy {} }
    layer { name: "accuracy" input: "b.out" input: "label" accuracy {} }
    objective: ["first", "second"] output: "accuracy"
    update { objective: "first" parameter: "a.*" optimizer { )",
                      first_optimizer, R"( } }
    update { objective: "second" parameter: "b.*" }
    optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
    training { steps: 150 evaluate_every: 0 data { digits { samples: 400 } } schedule { warm_up: 5 cosine {} } })");
}

struct LoadedTrainer {
  LoadedNetwork loaded;
  std::unique_ptr<Trainer> trainer;
};

LoadedTrainer MakeTrainer(const std::string& first_optimizer = "learning_rate: 0.003 adam {}") {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(Classifiers(first_optimizer), "test.pbtxt");
  SNUG_CHECK_OK(loaded.status());
  LoadedTrainer made{*std::move(loaded), nullptr};
  const proto::Training& training = made.loaded.network.training();
  absl::StatusOr<TrainingData> data = OpenData(training.data(), made.loaded.network, 1);
  SNUG_CHECK_OK(data.status());
  TrainerOptions options;
  options.compile.batch = 16;
  absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(
      made.loaded.network, made.loaded.source_map, OpRegistry::Builtin(), training, *std::move(data), options);
  SNUG_CHECK_OK(trainer.status());
  made.trainer = *std::move(trainer);
  return made;
}

TEST(TrainingInTurn, BothLearnAndEachLossIsToldByItself) {
  const LoadedTrainer made = MakeTrainer();
  std::vector<Metrics> steps;
  const absl::Status status = made.trainer->Run({.step = [&](const Trainer::StepReport& report) {
    steps.push_back(report.metrics);
    return absl::OkStatus();
  }});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(steps.size(), 150U);
  std::vector<std::string> names;
  for (const auto& [name, value] : steps[0]) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("loss", "first", "second", "accuracy"));
  for (const Metrics& metrics : steps) {
    EXPECT_NEAR(metrics[0].second, metrics[1].second + metrics[2].second, 1e-12);
  }
  EXPECT_LT(steps.back()[1].second, 1.5);  // chance has 2.3
  EXPECT_LT(steps.back()[2].second, 1.8);
}

TEST(TrainingInTurn, ResumedIsAsUninterrupted) {
  const LoadedTrainer whole = MakeTrainer(), first = MakeTrainer(), second = MakeTrainer();
  ASSERT_TRUE(whole.trainer->Run({}).ok());
  constexpr int64_t kStop = 23;
  ASSERT_TRUE(first.trainer->Run({.stop = [&] { return first.trainer->step() == kStop; }}).ok());
  std::memcpy(const_cast<std::byte*>(second.trainer->session().state_data()), first.trainer->session().state_data(),
              static_cast<size_t>(first.trainer->session().state_bytes()));
  ASSERT_TRUE(second.trainer->Resume(kStop).ok());
  ASSERT_TRUE(second.trainer->Run({}).ok());
  EXPECT_TRUE(StateBytes(second.trainer->session()) == StateBytes(whole.trainer->session()));
}

// The first update makes weights that are infinite, by which the second loss is no number.
TEST(TrainingInTurn, AStepOfWhichHalfWasDoneIsNoCheckpoint) {
  const LoadedTrainer made = MakeTrainer("learning_rate: 1e40 sgd {}");
  int checkpoints = 0;
  const Trainer::Callbacks callbacks{.checkpoint = [&](int64_t) {
    ++checkpoints;
    return absl::OkStatus();
  }};
  const absl::Status status = made.trainer->Run(callbacks);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step 1: the loss of update 2 is not finite (second), and the update before it was made "
                        "already: the parameters are those of no whole step, and no checkpoint is written of them."));
  EXPECT_EQ(checkpoints, 0);
}

TEST(TrainingInTurn, ALossOfTheFirstUpdateThatIsNotFiniteChangesNothing) {
  const LoadedTrainer made = MakeTrainer();
  Session& session = made.trainer->session();
  ASSERT_TRUE(session.SetVariable("a.out.bias", std::vector<double>(10, NAN)).ok());
  const auto parameters = [&] {
    std::vector<double> all;
    for (const char* const name : {"a.fc.weight", "a.out.weight", "b.out.weight", "b.out.bias", "state.random"}) {
      const std::vector<double> one = *session.GetVariable(name);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const std::vector<double> before = parameters();
  const absl::Status status = made.trainer->Run({});
  EXPECT_THAT(std::string(status.message()), HasSubstr("The parameters are those of the step before."));
  EXPECT_EQ(parameters(), before);
}

}  // namespace
}  // namespace snug::core
