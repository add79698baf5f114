// The trainer with an op that a program brings, which no registry of the library's own has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "engine/train/trainer.h"
#include "engine/train/training_options.h"
#include "snug/internal/engine.h"
#include "snug/internal/outside_ops.h"
#include "tests/checkpoint/temporary_folder.h"

namespace snug::testing {
namespace {

using ::testing::HasSubstr;

// y = x * gain, one gain for each column; not a number where x is beyond `limit`.
Op Gain(float limit) {
  Op op{.name = "gain", .doc = "y = x gain"};
  op.parameters = [](const OpCall& call, std::vector<OpParameter>* parameters) {
    parameters->push_back(
        {.name = "gain", .shape = {call.input(0).shape.back()}, .init = OpParameter::Init::kConstant, .value = 1});
    return Status();
  };
  op.infer = [](const OpCall& call, std::vector<TensorType>* outputs) {
    outputs->push_back(call.input(0).type());
    return Status();
  };
  op.kernel = [limit](const OpCall& call) {
    const auto x = call.input(0).as<const float>(), gain = call.input(1).as<const float>();
    const auto y = call.output(0).as<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = x[i] > limit ? std::numeric_limits<float>::quiet_NaN() : x[i] * gain[i % gain.size()];
    }
    return Status();
  };
  op.gradient = [](const OpCall& call) {
    const auto x = call.input(0).as<const float>(), gain = call.input(1).as<const float>();
    const auto dy = call.output_gradient(0).as<const float>();
    const auto dx = call.input_gradient(0).as<float>(), dgain = call.input_gradient(1).as<float>();
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * gain[i % gain.size()];
    for (float& d : dgain) d = 0;
    for (size_t i = 0; i < dy.size() && !dgain.empty(); ++i) dgain[i % dgain.size()] += dy[i] * x[i];
    return Status();
  };
  return op;
}

constexpr char kText[] = R"(
  name: "gained"
  input { name: "image" shape { dim: 784 } }
  input { name: "label" dtype: INT32 max_value: 10 }
  layer { name: "fc" input: "image" dense { units: 16 } }
  layer { name: "g" input: "fc" [snug.custom] { op: "gain" } }
  layer { name: "out" input: "g" dense { units: 10 } }
  layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
  objective: "loss"
  optimizer { learning_rate: 0.05 sgd { momentum: 0.9 } }
  training { steps: 8 accumulate: 2 evaluate_every: 4 data { digits { samples: 200 } } })";

class OutsideOpTraining : public ::testing::Test {
 protected:
  explicit OutsideOpTraining(float limit = std::numeric_limits<float>::max()) {
    EXPECT_TRUE(ops_.Add(Gain(limit)).ok());
    absl::StatusOr<core::LoadedNetwork> loaded = core::LoadNetworkText(kText, "test.pbtxt");
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    loaded_ = *std::move(loaded);
  }

  std::unique_ptr<core::Trainer> Make() {
    const proto::Training& training = loaded_.network.training();
    absl::StatusOr<core::TrainingData> data = core::OpenData(training.data(), loaded_.network, 1);
    EXPECT_TRUE(data.ok()) << data.status().message();
    core::TrainerOptions options;
    options.compile.batch = 8;
    auto trainer =
        core::Trainer::Create(loaded_.network, loaded_.source_map, ops_, training, *std::move(data), options);
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    return *std::move(trainer);
  }

  embed::OutsideOps ops_;
  core::LoadedNetwork loaded_;
};

TEST_F(OutsideOpTraining, EvaluatesSavesAndGoesOnBitForBit) {
  const core::checkpoint::TemporaryFolder folder;
  core::checkpoint::PosixFileSystem files;
  core::checkpoint::CheckpointStore store(&files, folder.path("checkpoints"), {.keep_last = 9});
  const std::unique_ptr<core::Trainer> whole = Make();
  int evaluations = 0;
  const absl::Status status = whole->Run(
      {.evaluation =
           [&](const core::Trainer::EvaluationReport& report) {
             EXPECT_GT(report.evaluation.samples, 0);
             ++evaluations;
             return absl::OkStatus();
           },
       .checkpoint =
           [&](int64_t step) {
             return store.Save(step, core::checkpoint::StateOf(whole->session()), {{"decay", "all"}}).status();
           }});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(evaluations, 2);
  EXPECT_NE(whole->session().GetVariable("g.gain")->at(0), 1) << "it was trained";
  const auto state = [](const core::Trainer& trainer) {
    const core::Session& session = trainer.session();
    return std::vector<std::byte>(session.state_data(), session.state_data() + session.state_bytes());
  };
  const std::unique_ptr<core::Trainer> first = Make(), second = Make();
  ASSERT_TRUE(first->Run({.stop = [&] { return first->step() == 5; }}).ok());
  ASSERT_TRUE(store.Save(5, core::checkpoint::StateOf(first->session()), {{"decay", "all"}}).ok());
  const auto resumed = core::checkpoint::Resume(second->session(), files, store.PathOf(5), {});
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  ASSERT_TRUE(second->Resume(5).ok());
  ASSERT_TRUE(second->Run({}).ok());
  EXPECT_TRUE(state(*second) == state(*whole));
}

class OutsideOpThatBreaks : public OutsideOpTraining {
 protected:
  OutsideOpThatBreaks() : OutsideOpTraining(/*limit=*/0) {}
};

TEST_F(OutsideOpThatBreaks, IsNamedAsTheNodeThatMadeNoNumber) {
  const absl::Status status = Make()->Run({});
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 1: the loss is not finite"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("test.pbtxt:6:3: layer \"g\" (gain): the first node"));
}

}  // namespace
}  // namespace snug::testing
