// Lets every call of a training fail once, while the next batch is on its way to the device. The error has to name the
// call and leave nothing behind, and what a checkpoint would keep is, bit for bit, the state after the last step that
// was done.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "engine/base/status.h"
#include "engine/train/trainer.h"
#include "engine/train/training_options.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using State = std::map<std::string, std::string>;

class CudaTrainerFailures : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = absl::StrCat(testing::TempDir(), "/trainer_failures_", getpid(), ".csv");
    std::ofstream file(path);
    file << "a,b,side\n";
    for (int i = 0; i < 12; ++i) file << i % 7 - 3 << "," << i % 5 - 2 << "," << i % 2 << "\n";
    loaded_ = LoadNetworkText(absl::StrCat(R"(
      name: "line"
      input { name: "point" shape { dim: 2 } }
      input { name: "label" dtype: INT32 max_value: 2 }
      layer { name: "fc" input: "point" dense { units: 2 } }
      layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
      objective: "loss"
      optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
      training { steps: 4 )",
                                           GetParam(), R"( data { held_back: 0 csv { file: ")", path, "\" } } }"),
                              "test.pbtxt")
                  .value();
  }
  absl::StatusOr<std::unique_ptr<Trainer>> Begin(FakeCuda& fake) const {
    SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::CudaDevice> device, cuda::CudaDevice::Open(fake.api(), 0));
    const proto::Training& training = loaded_.network.training();
    TrainerOptions options;
    options.compile.device = {Device::Kind::kCuda};
    options.compile.batch = 4;
    options.session.cuda_device = std::move(device);
    SNUG_ASSIGN_OR_RETURN(TrainingData data, OpenData(training.data(), loaded_.network, 1));
    return Trainer::Create(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), training, std::move(data),
                           options);
  }
  // The learning rate does not count: it is set before a step, and a step does not change it.
  static State StateOf(Session& session) {
    State state = StateBytes(session);
    state.erase("optimizer.learning_rate");
    return state;
  }
  // Returns the state after each number of steps.
  std::vector<State> States() const {
    FakeCuda fake({.kernels = cuda::emulation::BindLaunch});
    const std::unique_ptr<Trainer> trainer = Begin(fake).value();
    std::vector<State> states;
    EXPECT_TRUE(trainer
                    ->Run({.stop =
                               [&] {
                                 states.push_back(StateOf(trainer->session()));
                                 return false;
                               }})
                    .ok());
    states.push_back(StateOf(trainer->session()));
    return states;
  }

  LoadedNetwork loaded_;
};

TEST_P(CudaTrainerFailures, AreErrorsAndTheStateIsThatOfTheStepBefore) {
  const std::vector<State> states = States();
  ASSERT_EQ(states.size(), 5U);
  int64_t whole = 0;
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 5000) << "the calls come to an end";
    FakeCuda fake({.seed = static_cast<uint64_t>(n + 1), .kernels = cuda::emulation::BindLaunch});
    {
      absl::StatusOr<std::unique_ptr<Trainer>> made = Begin(fake);
      ASSERT_TRUE(made.ok()) << made.status();
      Trainer& trainer = **made;
      EXPECT_GT(trainer.session().upload_bytes(), 0);
      fake.ClearCalls();
      fake.FailCall(n);
      const absl::Status status = trainer.Run({});
      const bool has_failed = fake.has_failed();
      fake.FailCall(-1);
      if (!has_failed) break;
      const std::string failed = fake.calls()[static_cast<size_t>(n)];
      const std::string where = absl::StrCat(failed, ", call ", n, ", after step ", trainer.step());
      if (failed == "cuGraphDestroy" || failed == "cuGraphExecDestroy") {
        EXPECT_TRUE(status.ok()) << where << ": " << status;
        continue;
      }
      EXPECT_FALSE(status.ok()) << where;
      EXPECT_NE(status.message().find(failed), absl::string_view::npos) << where << ": " << status;
      if (trainer.session().failed()) continue;
      ++whole;
      EXPECT_TRUE(StateOf(trainer.session()) == states[static_cast<size_t>(trainer.step())]) << where;
      // The training has to go on as it would have without the failure.
      const absl::Status again = trainer.Run({});
      EXPECT_TRUE(again.ok()) << where << ": " << again;
      EXPECT_TRUE(StateOf(trainer.session()) == states.back()) << where;
    }
    EXPECT_EQ(fake.Leaks(), "") << "call " << n;
  }
  EXPECT_GT(whole, 10);
}

INSTANTIATE_TEST_SUITE_P(Steps, CudaTrainerFailures, testing::Values("", "accumulate: 2"),
                         [](const auto& info) { return info.index == 0 ? "whole" : "in_micro_batches"; });

}  // namespace
}  // namespace snug::core
