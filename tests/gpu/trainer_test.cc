// Whole trainings on a device: evaluation, checkpoints, a loss that is not finite.
#include "engine/train/trainer.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "engine/base/status.h"
#include "engine/train/training_options.h"
#include "tests/cuda/networks.h"
#include "tests/gpu/test_device.h"
#include "tests/testing/digits_network.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

const std::string kDigits = DigitsNetwork("steps: 20 evaluate_every: 20", 200);

class CudaTrainer : public OnDevice {
 protected:
  struct Made {
    LoadedNetwork loaded;
    std::unique_ptr<Trainer> trainer;
  };
  // `device` false: on the CPU.
  Made Make(const std::string& text, bool on_device = true, bool upload_ahead = true) {
    Made made{LoadNetworkText(text, "test.pbtxt").value(), nullptr};
    const proto::Training& training = made.loaded.network.training();
    TrainerOptions options;
    options.upload_ahead = upload_ahead;
    options.compile.batch = 16;
    options.compile.plain_kernels = true;
    options.compile.threads = 1;
    if (on_device) {
      options.compile.device = {Device::Kind::kCuda};
      options.session.cuda_device = device();
    }
    absl::StatusOr<std::unique_ptr<Trainer>> trainer =
        Trainer::Create(made.loaded.network, made.loaded.source_map, OpRegistry::Builtin(), training,
                        OpenData(training.data(), made.loaded.network, 1).value(), options);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    if (trainer.ok()) made.trainer = *std::move(trainer);
    return made;
  }
};

TEST_F(CudaTrainer, ReachesWhatTheCpuReaches) {
  std::vector<double> losses;
  for (const bool on_device : {true, false}) {
    const Made made = Make(kDigits, on_device);
    ASSERT_NE(made.trainer, nullptr);
    const absl::Status status = made.trainer->Run({.evaluation = [&](const Trainer::EvaluationReport& report) {
      losses.push_back(report.evaluation.metrics[0].second);
      return absl::OkStatus();
    }});
    ASSERT_TRUE(status.ok()) << status;
  }
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_NEAR(losses[0], losses[1], 1e-3);
  EXPECT_LT(losses[0], 2.3) << "chance";
}

TEST_F(CudaTrainer, UploadingAheadChangesNoBit) {
  const std::string path = absl::StrCat(testing::TempDir(), "/upload_ahead_", getpid(), ".csv");
  {
    std::ofstream file(path);
    file << "a,b,side\n";
    for (int i = 0; i < 80; ++i) file << i % 7 - 3 << "," << i % 5 - 2 << "," << i % 2 << "\n";
  }
  for (const char* steps : {"steps: 9 evaluate_every: 4", "steps: 5 accumulate: 4"}) {
    const std::string network = absl::StrCat(R"(
      name: "line"
      input { name: "point" shape { dim: 2 } }
      input { name: "label" dtype: INT32 max_value: 2 }
      layer { name: "drop" input: "point" dropout { rate: 0.25 } }
      layer { name: "fc" input: "drop" dense { units: 2 } }
      layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
      objective: "loss"
      optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
      training { )",
                                             steps, " data { csv { file: \"", path, "\" } } }");
    std::vector<Metrics> metrics[2];
    std::map<std::string, std::string> state[2];
    for (const bool ahead : {false, true}) {
      const Made made = Make(network, /*on_device=*/true, ahead);
      ASSERT_NE(made.trainer, nullptr);
      EXPECT_EQ(made.trainer->session().upload_bytes() > 0, ahead);
      int64_t last = 0;
      const absl::Status status =
          made.trainer->Run({.step =
                                 [&](const Trainer::StepReport& report) {
                                   EXPECT_EQ(report.step, ++last) << "every step is told of, once and in sequence";
                                   metrics[ahead].push_back(report.metrics);
                                   return absl::OkStatus();
                                 },
                             .evaluation =
                                 [&](const Trainer::EvaluationReport& report) {
                                   EXPECT_EQ(report.step, last) << "the steps before are told of first";
                                   metrics[ahead].push_back(report.evaluation.metrics);
                                   return absl::OkStatus();
                                 }});
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(last, made.trainer->steps());
      state[ahead] = StateBytes(made.trainer->session());
    }
    EXPECT_EQ(metrics[true], metrics[false]) << steps;
    EXPECT_TRUE(state[true] == state[false]) << steps;
  }
  std::remove(path.c_str());
}

TEST_F(CudaTrainer, ResumedIsAsUninterrupted) {
  const Made whole = Make(kDigits), first = Make(kDigits), second = Make(kDigits);
  ASSERT_TRUE(whole.trainer != nullptr && first.trainer != nullptr && second.trainer != nullptr);
  ASSERT_TRUE(whole.trainer->Run({}).ok());
  const int64_t stop_at = 13;
  ASSERT_TRUE(first.trainer->Run({.stop = [&] { return first.trainer->step() == stop_at; }}).ok());
  for (const auto& [name, bytes] : StateBytes(first.trainer->session())) {
    const ValueView view = *second.trainer->session().FindVariable(name, HostAccess::kWrite);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(view.data));
  }
  ASSERT_TRUE(second.trainer->Resume(stop_at).ok());
  ASSERT_TRUE(second.trainer->Run({}).ok());
  EXPECT_TRUE(StateBytes(second.trainer->session()) == StateBytes(whole.trainer->session()));
}

TEST_F(CudaTrainer, ALossThatIsNotFiniteNamesTheNodeAndChangesNothing) {
  const Made made = Make(R"(
    name: "overflows"
    input { name: "image" shape { dim: 784 } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "fc" input: "image" dense { units: 10 } }
    layer { name: "boom" input: "fc" exp {} }
    layer { name: "again" input: "boom" exp {} }
    layer { name: "bang" input: "again" exp {} }
    layer { name: "loss" input: "bang" input: "label" softmax_cross_entropy {} }
    objective: "loss"
    optimizer { learning_rate: 100 sgd {} }
    training { steps: 50 data { digits { samples: 100 } } })");
  ASSERT_NE(made.trainer, nullptr);
  std::map<std::string, std::string> before = StateBytes(made.trainer->session());
  const absl::Status status = made.trainer->Run({.step = [&](const Trainer::StepReport&) {
    before = StateBytes(made.trainer->session());
    return absl::OkStatus();
  }});
  EXPECT_THAT(std::string(status.message()), HasSubstr("the first node whose output is not finite"));
  std::map<std::string, std::string> after = StateBytes(made.trainer->session());
  for (const char* changing : {"optimizer.learning_rate"}) {  // set before each step
    before.erase(changing);
    after.erase(changing);
  }
  EXPECT_TRUE(before == after);
}

}  // namespace
}  // namespace snug::core
