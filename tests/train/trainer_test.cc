#include "engine/train/trainer.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/run/executors/executor.h"
#include "engine/train/training_options.h"
#include "proto/text_loader.h"
#include "tests/run/train_util.h"
#include "tests/testing/digits_network.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

LoadedNetwork LoadOrDie(const std::string& text) {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test.pbtxt");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *std::move(loaded);
}

const std::string kDigits = DigitsNetwork("steps: 60 evaluate_every: 30", 500);

struct LoadedTrainer {
  LoadedNetwork loaded;
  std::unique_ptr<Trainer> trainer;
};

LoadedTrainer MakeTrainer(const std::string& text, int64_t batch = 16, DType precision = DType::kFloat32,
                          bool stochastic_rounding = false, bool judges_classes = false) {
  LoadedTrainer made{LoadOrDie(text), nullptr};
  const proto::Training& training = made.loaded.network.training();
  absl::StatusOr<TrainingData> data = OpenData(training.data(), made.loaded.network, 1);
  EXPECT_TRUE(data.ok()) << data.status().message();
  TrainerOptions options;
  options.compile.batch = batch;
  options.compile.precision = precision;
  options.compile.stochastic_rounding = stochastic_rounding;
  options.judges_classes = judges_classes;
  auto trainer = Trainer::Create(made.loaded.network, made.loaded.source_map, OpRegistry::Builtin(), training,
                                 *std::move(data), options);
  EXPECT_TRUE(trainer.ok()) << trainer.status().message();
  if (trainer.ok()) made.trainer = *std::move(trainer);
  return made;
}

TEST(Trainer, Learns) {
  const LoadedTrainer made = MakeTrainer(kDigits);
  ASSERT_NE(made.trainer, nullptr);
  std::vector<Trainer::EvaluationReport> evaluations;
  std::vector<double> rates;
  const absl::Status status = made.trainer->Run({.step =
                                                     [&](const Trainer::StepReport& report) {
                                                       rates.push_back(report.rate);
                                                       return absl::OkStatus();
                                                     },
                                                 .evaluation =
                                                     [&](const Trainer::EvaluationReport& report) {
                                                       evaluations.push_back(report);
                                                       return absl::OkStatus();
                                                     }});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_EQ(evaluations[1].step, 60);
  EXPECT_LT(evaluations[1].evaluation.metrics[0].second, 2.0);   // loss; chance has 2.3
  EXPECT_GT(evaluations[1].evaluation.metrics[1].second, 0.25);  // accuracy; chance has 0.1
  ASSERT_EQ(rates.size(), 60u);
  EXPECT_NEAR(rates[0], 0.02, 1e-12);
  EXPECT_NEAR(rates[59], 0, 1e-12);
}

TEST(Trainer, EvaluationIsTheMeanOverAllSamplesWhateverTheBatch) {
  // 7 does not divide the number of samples: the last batch is a short one.
  const LoadedTrainer one = MakeTrainer(kDigits, 16), other = MakeTrainer(kDigits, 7);
  const auto a = one.trainer->Evaluate(), b = other.trainer->Evaluate();
  ASSERT_TRUE(a.ok()) << a.status().message();
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_EQ(a->evaluation.samples, b->evaluation.samples);
  EXPECT_NE(a->evaluation.samples % 7, 0);
  EXPECT_NEAR(a->evaluation.metrics[0].second, b->evaluation.metrics[0].second, 1e-5);
  EXPECT_NEAR(a->evaluation.metrics[1].second, b->evaluation.metrics[1].second, 1e-7);
}

LoadedTrainer MakeJudgingTrainer(const std::string& text) {
  return MakeTrainer(text, /*batch=*/16, DType::kFloat32, /*stochastic_rounding=*/false, /*judges_classes=*/true);
}

TEST(Trainer, EvaluationsTellWhatWasTakenForWhatWhereThatIsAskedFor) {
  const LoadedTrainer made = MakeJudgingTrainer(kDigits), silent = MakeTrainer(kDigits);
  ASSERT_NE(made.trainer, nullptr);
  ASSERT_TRUE(made.trainer->Run({}).ok());
  ASSERT_TRUE(silent.trainer->Run({}).ok());
  // Looking changes nothing.
  EXPECT_TRUE(StateBytes(made.trainer->session()) == StateBytes(silent.trainer->session()));
  const auto evaluated = made.trainer->Evaluate(), unjudged = silent.trainer->Evaluate();
  ASSERT_TRUE(evaluated.ok()) << evaluated.status().message();
  ASSERT_TRUE(evaluated->judgement.has_value());
  EXPECT_FALSE(unjudged->judgement.has_value());
  const Metrics& metrics = evaluated->evaluation.metrics;
  EXPECT_EQ(Metrics(metrics.begin(), metrics.begin() + 2), unjudged->evaluation.metrics);
  const Confusion& confusion = evaluated->judgement->confusion;
  EXPECT_EQ(confusion.rows(), evaluated->evaluation.samples);
  EXPECT_NEAR(confusion.accuracy(), evaluated->evaluation.metrics[1].second, 1e-6);
  EXPECT_EQ(confusion.classes().size(), 10u);
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "accuracy", "precision", "recall", "f1", "auc", "top5_accuracy"}));
  EXPECT_EQ(metrics[4].second, confusion.means().f1);
  EXPECT_EQ(metrics[5].second, evaluated->judgement->mean_area);
  EXPECT_EQ(made.trainer->metrics().size(), names.size());
  const auto again = made.trainer->Evaluate();  // counts anew
  EXPECT_EQ(again->judgement->confusion.rows(), confusion.rows());
}

TEST(Trainer, ClassesThatCannotBeJudgedEndNoTraining) {
  const LoadedTrainer made = MakeJudgingTrainer(R"(
    name: "many"
    input { name: "image" shape { dim: 784 } }
    input { name: "label" dtype: INT32 max_value: 10001 }
    layer { name: "few" input: "image" dense { units: 2 } }
    layer { name: "out" input: "few" dense { units: 10001 } }
    layer { name: "loss" input: "out" input: "label" softmax_cross_entropy {} }
    objective: "loss"
    training { steps: 1 evaluate_batches: 2 data { digits { samples: 64 } } }
  )");
  ASSERT_NE(made.trainer, nullptr);
  std::vector<Trainer::EvaluationReport> evaluations;
  const absl::Status status = made.trainer->Run({.evaluation = [&](const Trainer::EvaluationReport& report) {
    evaluations.push_back(report);
    return absl::OkStatus();
  }});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(evaluations.size(), 1u);
  EXPECT_FALSE(evaluations[0].judgement.has_value());
  EXPECT_THAT(evaluations[0].not_judged, HasSubstr("10001 classes are too many to be told apart"));
  EXPECT_EQ(evaluations[0].evaluation.samples, 32);
}

// Takes its time for each sample.
class SlowDataset final : public Dataset {
 public:
  SlowDataset(std::shared_ptr<const Dataset> of, int64_t nanoseconds)
      : Dataset(of->fields(), of->size()), of_(std::move(of)), nanoseconds_(nanoseconds) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const int64_t end = MonotonicNanoseconds() + nanoseconds_;
    while (MonotonicNanoseconds() < end) {
    }
    return of_->Read(sample, fields);
  }

 private:
  std::shared_ptr<const Dataset> of_;
  int64_t nanoseconds_;
};

TEST(Trainer, TellsHowLongStepsWaitedForTheirBatches) {
  constexpr int64_t kBatch = 4, kSlow = 20'000'000;
  const LoadedNetwork loaded = LoadOrDie(DigitsNetwork("steps: 6 evaluate_every: 0", 64));
  const proto::Training& training = loaded.network.training();
  absl::StatusOr<TrainingData> data = OpenData(training.data(), loaded.network, 1);
  ASSERT_TRUE(data.ok()) << data.status().message();
  data->training = std::make_shared<const SlowDataset>(data->training, kSlow);
  TrainerOptions options;
  options.compile.batch = kBatch;
  const auto trainer =
      Trainer::Create(loaded.network, loaded.source_map, OpRegistry::Builtin(), training, *std::move(data), options);
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  int64_t waited = 0;
  const absl::Status status = (*trainer)->Run({.step = [&](const Trainer::StepReport& report) {
    EXPECT_GE(report.waited_ns, 0);
    EXPECT_LE(report.waited_ns, report.end_ns - report.begin_ns);
    waited += report.waited_ns;
    return absl::OkStatus();
  }});
  ASSERT_TRUE(status.ok()) << status.message();
  // One reader takes 80 ms for a batch. Of the six that are trained on it may have read some before the first step.
  EXPECT_GE(waited, kBatch * kSlow);
}

TEST(Trainer, ResumedIsAsUninterrupted) {
  const LoadedTrainer whole = MakeTrainer(kDigits), first = MakeTrainer(kDigits), second = MakeTrainer(kDigits);
  ASSERT_TRUE(whole.trainer->Run({}).ok());
  int64_t stop_at = 41;
  ASSERT_TRUE(first.trainer->Run({.stop = [&] { return first.trainer->step() == stop_at; }}).ok());
  ASSERT_EQ(first.trainer->step(), stop_at);
  std::memcpy(const_cast<std::byte*>(second.trainer->session().state_data()), first.trainer->session().state_data(),
              static_cast<size_t>(first.trainer->session().state_bytes()));
  ASSERT_TRUE(second.trainer->Resume(stop_at).ok());
  ASSERT_TRUE(second.trainer->Run({}).ok());
  EXPECT_TRUE(StateBytes(second.trainer->session()) == StateBytes(whole.trainer->session()));
}

TEST(Trainer, OtherDataBeginWithAnEpochOfTheirOwn) {
  // 500 samples to train on are 31 batches.
  const LoadedTrainer made = MakeTrainer(DigitsNetwork("epochs: 4", 500));
  ASSERT_NE(made.trainer, nullptr);
  ASSERT_EQ(made.trainer->steps_per_epoch(), 31);
  EXPECT_EQ(made.trainer->steps(), 4 * 31);
  ASSERT_TRUE(made.trainer->Resume(10, {.step = 7, .epoch = 2}).ok());
  EXPECT_EQ(made.trainer->next_batch(), 2 * 31 + 3);
  EXPECT_EQ(made.trainer->epochs_begun(), 3);
  EXPECT_EQ(made.trainer->steps(), 7 + 2 * 31);
  EXPECT_TRUE(made.trainer->writes_checkpoint(7 + 31));
  EXPECT_FALSE(made.trainer->writes_checkpoint(31));
  std::vector<int64_t> evaluated, saved, epochs;
  const absl::Status status = made.trainer->Run({.step =
                                                     [&](const Trainer::StepReport& report) {
                                                       epochs.push_back(report.epoch);
                                                       return absl::OkStatus();
                                                     },
                                                 .evaluation =
                                                     [&](const Trainer::EvaluationReport& report) {
                                                       evaluated.push_back(report.step);
                                                       return absl::OkStatus();
                                                     },
                                                 .checkpoint =
                                                     [&](int64_t step) {
                                                       saved.push_back(step);
                                                       return absl::OkStatus();
                                                     }});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(evaluated, (std::vector<int64_t>{7 + 31, 7 + 62}));
  EXPECT_EQ(saved, evaluated);
  ASSERT_EQ(epochs.size(), 59);
  EXPECT_EQ(epochs[27], 2);
  EXPECT_EQ(epochs[28], 3);
  // Epochs that are over leave nothing to do.
  ASSERT_TRUE(made.trainer->Resume(7, {.step = 7, .epoch = 9}).ok());
  EXPECT_TRUE(made.trainer->finished());
}

TEST(Trainer, CheckpointsOfEarlierDataAreAtTheEndsOfTheirEpochs) {
  const LoadedTrainer made = MakeTrainer(DigitsNetwork("epochs: 6", 500));  // 31 steps each
  // Epochs had 10 steps, then 4, then it is not known how many.
  ASSERT_TRUE(made.trainer->Resume(60, {.step = 57, .epoch = 5, .earlier = {{0, 10}, {25, 4}, {43, 0}}}).ok());
  EXPECT_EQ(made.trainer->steps(), 57 + 31);
  std::vector<int64_t> written;
  for (int64_t step = 1; step <= made.trainer->steps(); ++step) {
    if (made.trainer->writes_checkpoint(step)) written.push_back(step);
  }
  EXPECT_EQ(written, (std::vector<int64_t>{10, 20, 29, 33, 37, 41, 88}));
  EXPECT_EQ(made.trainer->newest_checkpoints(3, 88), (std::vector<int64_t>{37, 41, 88}));
}

TEST(Trainer, AScheduleOverEpochsGoesOnWhereItsEpochIs) {
  // 31 steps an epoch, after a warm-up of 5 steps half a cosine.
  const auto rate_after = [](const std::string& length, int64_t step, const Trainer::DataBegin& data) {
    const LoadedTrainer made = MakeTrainer(DigitsNetwork(length, 500));
    EXPECT_TRUE(made.trainer->Resume(step, data).ok());
    return made.trainer->next_rate();
  };
  const auto at = [](double share) { return 0.1 * 0.5 * (1 + std::cos(std::acos(-1.0) * share)); };
  EXPECT_DOUBLE_EQ(rate_after("epochs: 4", 62, {}), at(57.0 / 118));
  // Half of the epochs are done, whatever steps they had. The warm-up took half of an epoch of 10 steps.
  const Trainer::DataBegin after_two = {.step = 20, .epoch = 2, .earlier = {{0, 10}}};
  EXPECT_DOUBLE_EQ(rate_after("epochs: 4", 20, after_two), at((62.0 - 16) / (124 - 16 - 1)));
  EXPECT_DOUBLE_EQ(rate_after("epochs: 8", 30, after_two), at((72.0 - 16) / (248 - 16 - 1)));
  EXPECT_DOUBLE_EQ(rate_after("epochs: 4", 20 + 61, after_two), at(1));
  // A warm-up takes as many steps as it says, and so does a length in steps.
  EXPECT_DOUBLE_EQ(rate_after("epochs: 4", 3, {.step = 2, .epoch = 1, .earlier = {{0, 2}}}), 0.1 * 4 / 5);
  EXPECT_DOUBLE_EQ(rate_after("steps: 120", 40, after_two), at(35.0 / 114));
  // One that is still under way ends where these data have its end: at step 5, which is their batch 31 + 3.
  const Trainer::DataBegin early = {.step = 2, .epoch = 1, .earlier = {{0, 2}}};
  EXPECT_DOUBLE_EQ(rate_after("epochs: 4", 5, early), 0.1);
  EXPECT_DOUBLE_EQ(rate_after("epochs: 4", 6, early), at(1.0 / (124 - 34 - 1)));
  // Or it ended with the second of earlier data, half of its epoch behind the first epoch.
  const Trainer::DataBegin second = {.step = 8, .epoch = 3, .earlier = {{0, 4}, {4, 2}}};
  EXPECT_DOUBLE_EQ(rate_after("epochs: 4", 8, second), at((93.0 - 47) / (124 - 47 - 1)));
}

std::string Averaged(const std::string& average) {
  std::string text = DigitsNetwork("steps: 25 evaluate_every: 30", 500);
  return text.replace(text.find("optimizer { "), 12, absl::StrCat("optimizer { average { ", average, " } "));
}

TEST(Trainer, EvaluatesTheAveragesWhenAsked) {
  const LoadedTrainer averaged = MakeTrainer(Averaged("decay: 0.9 evaluate: true"));
  const LoadedTrainer plain = MakeTrainer(Averaged("decay: 0.9"));
  ASSERT_NE(averaged.trainer, nullptr);
  ASSERT_NE(plain.trainer, nullptr);
  EXPECT_EQ(averaged.trainer->session().state_bytes(), plain.trainer->session().state_bytes());
  ASSERT_TRUE(averaged.trainer->Run({}).ok());
  ASSERT_TRUE(plain.trainer->Run({}).ok());
  EXPECT_TRUE(StateBytes(averaged.trainer->session()) == StateBytes(plain.trainer->session()));
  const auto found = averaged.trainer->Evaluate(), of_parameters = plain.trainer->Evaluate();
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_TRUE(of_parameters.ok()) << of_parameters.status().message();
  EXPECT_NE(found->evaluation.metrics, of_parameters->evaluation.metrics);

  Session& session = plain.trainer->session();
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
    ASSERT_TRUE(session.SetVariable(name, *session.GetVariable(absl::StrCat(name, "/average"))).ok());
  }
  const auto expected = plain.trainer->Evaluate();
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  EXPECT_EQ(found->evaluation.metrics, expected->evaluation.metrics);
}

TEST(Trainer, ALossThatIsNotFiniteNamesTheNodeAndChangesNothing) {
  // 88.8 is the largest number whose exponential is a float.
  const LoadedTrainer made = MakeTrainer(R"(
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
  std::vector<std::byte> before;
  std::vector<int64_t> checkpoints;
  const absl::Status status = made.trainer->Run({.step =
                                                     [&](const Trainer::StepReport&) {
                                                       before = StateBytes(made.trainer->session());
                                                       return absl::OkStatus();
                                                     },
                                                 .checkpoint =
                                                     [&](int64_t step) {
                                                       checkpoints.push_back(step);
                                                       return absl::UnavailableError("the disk is full");
                                                     }});
  EXPECT_THAT(std::string(status.message()), HasSubstr("the loss is not finite"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("test.pbtxt:6:5: layer \"boom\" (exp): the first node"));
  EXPECT_GE(made.trainer->step(), 1);
  EXPECT_TRUE(StateBytes(made.trainer->session()) == before);
  EXPECT_EQ(checkpoints, std::vector<int64_t>{made.trainer->step()});  // once, of the last good state
  EXPECT_THAT(std::string(status.message()), HasSubstr("Nor could a checkpoint be written: the disk is full"));
}

TEST(Trainer, LearnsInBfloat16WhatItLearnsInFloat32) {
  const auto accuracy = [](DType precision, bool stochastic_rounding = false) {
    const LoadedTrainer made = MakeTrainer(R"(
      name: "mlp"
      input { name: "image" shape { dim: 784 } }
      input { name: "label" dtype: INT32 max_value: 10 }
      layer { name: "fc1" input: "image" dense { units: 64 } }
      layer { name: "act" input: "fc1" relu {} }
      layer { name: "fc2" input: "act" dense { units: 10 } }
      layer { name: "loss" input: "fc2" input: "label" softmax_cross_entropy {} }
      layer { name: "accuracy" input: "fc2" input: "label" accuracy {} }
      objective: "loss" output: "accuracy"
      optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
      training { epochs: 5 data { digits { samples: 8000 } } schedule { one_cycle {} } })",
                                           32, precision, stochastic_rounding);
    EXPECT_NE(made.trainer, nullptr);
    for (const Variable& variable : made.trainer->session().compiled().graph.variables()) {
      const bool kept = variable.role == VariableRole::kParameter || variable.role == VariableRole::kSlot;
      EXPECT_EQ(variable.type.dtype == DType::kBFloat16, kept && stochastic_rounding) << variable.name;
    }
    EXPECT_TRUE(made.trainer->Run({}).ok());
    return made.trainer->Evaluate()->evaluation.metrics[1].second;
  };
  const double float32 = accuracy(DType::kFloat32), bfloat16 = accuracy(DType::kBFloat16);
  EXPECT_GT(float32, 0.93);
  EXPECT_NEAR(bfloat16, float32, 0.015);
  EXPECT_NEAR(accuracy(DType::kBFloat16, /*stochastic_rounding=*/true), float32, 0.015);
}

// Parameters and slots take half the bytes; what lies around them is some bytes for the step and the learning rate.
TEST(Trainer, StochasticRoundingHalvesTheState) {
  for (const char* const optimizer : {"sgd {}", "sgd { momentum: 0.9 nesterov: true }", "adam {}", "adamw {}",
                                      "rmsprop {}", "rmsprop { momentum: 0.9 }", "adagrad {}", "lion {}", "lamb {}"}) {
    std::string text = DigitsNetwork("steps: 6 evaluate_every: 6", 200);
    const size_t at = text.find("sgd { momentum: 0.9 }");
    text.replace(at, std::strlen("sgd { momentum: 0.9 }"), optimizer);
    const LoadedTrainer wide = MakeTrainer(text, 16, DType::kBFloat16);
    const LoadedTrainer narrow = MakeTrainer(text, 16, DType::kBFloat16, /*stochastic_rounding=*/true);
    ASSERT_NE(narrow.trainer, nullptr) << optimizer;
    const int64_t state = narrow.trainer->session().state_bytes();
    EXPECT_NEAR(static_cast<double>(wide.trainer->session().state_bytes()), 2.0 * static_cast<double>(state), 2048)
        << optimizer;
    const absl::Status status = narrow.trainer->Run({});
    ASSERT_TRUE(status.ok()) << optimizer << ": " << status.message();
    // A second training has the same bits: they depend on no clock and no address.
    const LoadedTrainer again = MakeTrainer(text, 16, DType::kBFloat16, /*stochastic_rounding=*/true);
    ASSERT_TRUE(again.trainer->Run({}).ok());
    EXPECT_TRUE(StateBytes(again.trainer->session()) == StateBytes(narrow.trainer->session())) << optimizer;
  }
}

TEST(Trainer, StochasticRoundingGoesOnAsUninterrupted) {
  const auto make = [] { return MakeTrainer(kDigits, 16, DType::kBFloat16, /*stochastic_rounding=*/true); };
  const LoadedTrainer whole = make(), first = make(), second = make();
  ASSERT_TRUE(whole.trainer->Run({}).ok());
  ASSERT_TRUE(first.trainer->Run({.stop = [&] { return first.trainer->step() == 23; }}).ok());
  std::memcpy(const_cast<std::byte*>(second.trainer->session().state_data()), first.trainer->session().state_data(),
              static_cast<size_t>(first.trainer->session().state_bytes()));
  ASSERT_TRUE(second.trainer->Resume(23).ok());
  ASSERT_TRUE(second.trainer->Run({}).ok());
  EXPECT_TRUE(StateBytes(second.trainer->session()) == StateBytes(whole.trainer->session()));
}

// Averages are float32, the norm of the gradients is that of all of them, and micro-batches are summed in float32.
TEST(Trainer, StochasticRoundingTakesAveragesClippingAndMicroBatches) {
  std::string text = DigitsNetwork("steps: 30 evaluate_every: 30 accumulate: 2", 500);
  text.replace(text.find("optimizer { "), 12, "optimizer { clip_norm: 1 average { decay: 0.9 evaluate: true } ");
  text.replace(text.find("layer { name: \"drop\""), 0, "layer { name: \"norm\" input: \"act\" layer_norm {} } ");
  text.replace(text.find("input: \"act\" dropout"), 12, "input: \"norm\"");
  const LoadedTrainer made = MakeTrainer(text, 16, DType::kBFloat16, /*stochastic_rounding=*/true);
  ASSERT_NE(made.trainer, nullptr);
  const absl::Status status = made.trainer->Run({});
  ASSERT_TRUE(status.ok()) << status.message();
  const Graph& graph = made.trainer->session().compiled().graph;
  const auto dtype = [&](const char* name) { return graph.variable(graph.FindVariable(name)).type.dtype; };
  EXPECT_EQ(dtype("fc1.weight"), DType::kBFloat16);
  EXPECT_EQ(dtype("fc1.weight/momentum"), DType::kBFloat16);
  EXPECT_EQ(dtype("fc1.weight/average"), DType::kFloat32);
  EXPECT_EQ(dtype("norm.weight"), DType::kFloat32);  // scales of norms are float32 in every network
  const auto evaluated = made.trainer->Evaluate();
  ASSERT_TRUE(evaluated.ok()) << evaluated.status().message();
  EXPECT_LT(evaluated->evaluation.metrics[0].second, 2.2);  // chance has 2.3
}

TEST(Trainer, RefusesWhatCannotBe) {
  const LoadedNetwork loaded = LoadOrDie(kDigits);
  proto::Training both = loaded.network.training();
  both.set_epochs(3);
  EXPECT_THAT(std::string(Trainer::Create(loaded.network, loaded.source_map, OpRegistry::Builtin(), both,
                                          *OpenData(both.data(), loaded.network, 1), {})
                              .status()
                              .message()),
              HasSubstr("epochs and steps"));
  EXPECT_THAT(std::string(OpenData(proto::Data(), loaded.network, 1).status().message()), HasSubstr("--data=digits"));
  proto::Training textures = loaded.network.training();
  textures.mutable_data()->mutable_textures();
  EXPECT_THAT(std::string(Trainer::Create(loaded.network, loaded.source_map, OpRegistry::Builtin(), textures,
                                          *OpenData(textures.data(), loaded.network, 1), {})
                              .status()
                              .message()),
              HasSubstr("784"));
}

}  // namespace
}  // namespace snug::core
