// Training in micro-batches: what it shares with training in whole batches, and what it saves.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include "engine/compile/import/import.h"
#include "engine/train/checkpoint/session_state.h"
#include "engine/train/trainer.h"
#include "engine/train/training_options.h"
#include "engine/train/within_step.h"
#include "memory/ilp/solver.h"
#include "memory/strategies.h"
#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

// An MLP over digits.
std::string Mlp(const std::string& optimizer, const std::string& layer = "relu {}") {
  return absl::StrCat(R"(
    name: "mlp"
    input { name: "image" shape { dim: 784 } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "fc1" input: "image" dense { units: 24 } }
    layer { name: "act" input: "fc1" )",
                      layer, R"( }
    layer { name: "fc2" input: "act" dense { units: 10 } }
    layer { name: "loss" input: "fc2" input: "label" softmax_cross_entropy {} }
    layer { name: "accuracy" input: "fc2" input: "label" accuracy {} }
    objective: "loss" output: "accuracy"
    optimizer { )",
                      optimizer, R"( }
    training { steps: 6 data { digits { samples: 144 } } schedule { warm_up: 2 cosine {} } })");
}

// One block of a transformer over the copy task, whose samples have as many labels that count, each.
std::string Transformer(const std::string& optimizer) {
  return absl::StrCat(R"(
    name: "transformer"
    input { name: "tokens" shape { dim: 32 } dtype: INT32 max_value: 32 }
    input { name: "label" shape { dim: 32 } dtype: INT32 max_value: 32 }
    layer { name: "tok" input: "tokens" embedding { entries: 32 width: 16 } }
    layer { name: "pos" parameter { dim: [32, 16] init { kind: NORMAL value: 0.02 } } }
    layer { name: "embed" input: "tok" input: "pos" add {} }
    layer { name: "ln1" input: "embed" layer_norm {} }
    layer { name: "qkv" input: "ln1" dense { units: 48 } }
    layer { name: "split" input: "qkv" split { axis: -1 parts: 3 } }
    layer { name: "attention" input: ["split:0", "split:1", "split:2"] attention { causal: true heads: 2 } }
    layer { name: "proj" input: "attention" dense { units: 16 } }
    layer { name: "add1" input: "embed" input: "proj" add {} }
    layer { name: "ln2" input: "add1" layer_norm {} }
    layer { name: "fc1" input: "ln2" dense { units: 32 } }
    layer { name: "gelu" input: "fc1" gelu { tanh: true } }
    layer { name: "fc2" input: "gelu" dense { units: 16 } }
    layer { name: "add2" input: "add1" input: "fc2" add {} }
    layer { name: "head" input: "add2" dense { units: 32 bias: false } param { name: "weight" tie: "tok.weight" } }
    layer { name: "loss" input: "head" input: "label" softmax_cross_entropy {} }
    objective: "loss"
    optimizer { )",
                      optimizer, R"( }
    training { steps: 6 data { copy { samples: 96 } } })");
}

const char kNormalised[] = R"(
    name: "normalised"
    input { name: "image" shape { dim: [3, 32, 32] } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "conv" input: "image" conv { filters: 8 kernel: 3 bias: false } }
    layer { name: "bn" input: "conv" batch_norm {} }
    layer { name: "act" input: "bn" relu {} }
    layer { name: "drop" input: "act" dropout { rate: 0.2 } }
    layer { name: "pool" input: "drop" global_avg_pool {} }
    layer { name: "fc" input: "pool" dense { units: 10 } }
    layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
    objective: "loss"
    optimizer { learning_rate: 0.1 clip_norm: 1 average { decay: 0.9 } sgd { momentum: 0.9 } }
    training { steps: 4 data { textures { samples: 48 } } })";

struct How {
  int64_t batch = 24, accumulate = 1;
  DType precision = DType::kFloat64;
  std::string strategy = "best";
  int streams = 1;
  std::optional<ExecutorKind> engine;
  bool evaluates = false;
};

struct Made {
  std::unique_ptr<LoadedNetwork> loaded;
  std::unique_ptr<Trainer> trainer;
  absl::Status status;
};

Made Make(absl::StatusOr<LoadedNetwork> loaded, const How& how) {
  Made made{std::make_unique<LoadedNetwork>(), nullptr, loaded.status()};
  if (!loaded.ok()) return made;
  *made.loaded = *std::move(loaded);
  proto::Training training = made.loaded->network.training();
  training.set_accumulate(how.accumulate);
  absl::StatusOr<TrainingData> data = OpenData(training.data(), made.loaded->network, 1);
  EXPECT_TRUE(data.ok()) << data.status().message();
  if (!how.evaluates) data->evaluation = nullptr;
  TrainerOptions options{.compile = {.batch = how.batch, .precision = how.precision},
                         .session = {.engine = how.engine}};
  options.compile.memory.strategy = how.strategy;
  options.compile.memory.streams = how.streams;
  options.compile.memory.planner.work_limit = how.strategy == "best" ? 0 : 20;
  auto trainer = Trainer::Create(made.loaded->network, made.loaded->source_map, OpRegistry::Builtin(), training,
                                 *std::move(data), options);
  made.status = trainer.status();
  if (trainer.ok()) made.trainer = *std::move(trainer);
  return made;
}

Made Make(const std::string& text, const How& how) { return Make(LoadNetworkText(text, "test.pbtxt"), how); }

using State = std::map<std::string, std::string>;

// What a checkpoint keeps.
State StateOf(Trainer& trainer) {
  State state;
  for (const checkpoint::TensorBytes& tensor : checkpoint::StateOf(trainer.session())) {
    state[tensor.name] = {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
  }
  return state;
}

// The largest difference of any Variable, by the largest number in it.
double Difference(Trainer& a, Trainer& b) {
  double worst = 0;
  for (const auto& [name, bytes] : StateOf(a)) {
    const std::vector<double> x = *a.session().GetVariable(name), y = *b.session().GetVariable(name);
    double largest = 1e-300, difference = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      largest = std::max(largest, std::abs(x[i]));
      difference = std::max(difference, std::abs(x[i] - y[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

void ExpectSumsAreEmpty(Trainer& trainer) {
  int sums = 0;
  for (const Variable& variable : trainer.session().compiled().graph.variables()) {
    if (variable.role != VariableRole::kWithinStep || variable.name == kDrawStateName) continue;
    ++sums;
    const std::vector<double> values = *trainer.session().GetVariable(variable.name);
    for (const double value : values) ASSERT_EQ(value, 0) << variable.name;
  }
  EXPECT_GT(sums, 0);
}

TEST(MicroBatches, TrainAsOneBatchDoes) {
  for (const std::string& text :
       {Mlp("learning_rate: 0.1 weight_decay: 1e-3 sgd { momentum: 0.9 nesterov: true }"),
        Mlp("learning_rate: 0.1 clip_norm: 0.5 sgd { momentum: 0.9 }"), Mlp("learning_rate: 1e-3 adam {}"),
        Transformer("learning_rate: 0.1 clip_norm: 0.5 sgd { momentum: 0.9 }"),
        Transformer("learning_rate: 1e-3 weight_decay: 0.01 clip_norm: 0.5 adamw {}")}) {
    std::vector<std::pair<double, Metrics>> expected;
    const auto steps = [](Trainer& trainer, std::vector<std::pair<double, Metrics>>* into) {
      return trainer.Run({.step = [into](const Trainer::StepReport& report) {
        into->emplace_back(report.rate, report.metrics);
        return absl::OkStatus();
      }});
    };
    const Made whole = Make(text, {});
    ASSERT_NE(whole.trainer, nullptr) << whole.status.message();
    ASSERT_TRUE(steps(*whole.trainer, &expected).ok());
    for (const int64_t parts : {2, 3, 8, 24}) {
      const Made made = Make(text, {.accumulate = parts});
      ASSERT_NE(made.trainer, nullptr) << made.status.message();
      EXPECT_EQ(made.trainer->batch(), 24);
      std::vector<std::pair<double, Metrics>> found;
      ASSERT_TRUE(steps(*made.trainer, &found).ok());
      EXPECT_LT(Difference(*whole.trainer, *made.trainer), 4e-12) << parts << text;
      ASSERT_EQ(found.size(), 6u);  // steps and learning rates are those of whole batches
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].first, expected[i].first);
        for (size_t m = 0; m < expected[i].second.size(); ++m) {
          EXPECT_EQ(found[i].second[m].first, expected[i].second[m].first);
          EXPECT_NEAR(found[i].second[m].second, expected[i].second[m].second, 1e-12);
        }
      }
      ExpectSumsAreEmpty(*made.trainer);
    }
  }
}

TEST(MicroBatches, EvaluationIsThatOfWholeBatches) {
  const std::string text = Mlp("learning_rate: 0.1 sgd {}");
  const Made whole = Make(text, {.evaluates = true}), parts = Make(text, {.accumulate = 4, .evaluates = true});
  const auto a = whole.trainer->Evaluate(), b = parts.trainer->Evaluate();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->evaluation.samples, b->evaluation.samples);
  EXPECT_NEAR(a->evaluation.metrics[0].second, b->evaluation.metrics[0].second, 1e-12);
}

TEST(MicroBatches, StatisticsFollowTheMeanOfTheMicroBatches) {
  // Without dropout, and before the parameters differ: one step.
  std::string text = kNormalised;
  text.replace(text.find("rate: 0.2"), 9, "rate: 0.0");
  text.replace(text.find("steps: 4"), 8, "steps: 1");
  const Made whole = Make(text, {}), parts = Make(text, {.accumulate = 4});
  ASSERT_NE(parts.trainer, nullptr) << parts.status.message();
  ASSERT_TRUE(whole.trainer->Run({}).ok());
  ASSERT_TRUE(parts.trainer->Run({}).ok());
  const auto mean = whole.trainer->session().GetVariable("bn.running_mean");
  ASSERT_TRUE(mean.ok());
  for (size_t c = 0; c < mean->size(); ++c) {
    EXPECT_NE((*mean)[c], 0);
    EXPECT_NEAR((*mean)[c], (*parts.trainer->session().GetVariable("bn.running_mean"))[c], 1e-13);
    // The spread of the micro-batches' means is in no variance of theirs.
    const double wide = (*whole.trainer->session().GetVariable("bn.running_var"))[c];
    const double narrow = (*parts.trainer->session().GetVariable("bn.running_var"))[c];
    EXPECT_NE(narrow, 1);
    EXPECT_NEAR(narrow, wide, 0.02 * wide);
  }
}

TEST(MicroBatches, EachDrawsItsOwnNumbersAndTheSameAgain) {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(Mlp("sgd {}", "dropout { rate: 0.5 }"), "test.pbtxt");
  ASSERT_TRUE(loaded.ok());
  const auto draws = [&] {
    std::vector<Compiled> programs;
    for (const bool last : {true, false}) {
      CompileOptions options{.batch = 8, .micro_batches = {.count = 4, .last = last}, .fetch = {"act"}};
      absl::StatusOr<Compiled> one = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
      EXPECT_TRUE(one.ok()) << one.status().message();
      programs.push_back(*std::move(one));
    }
    const std::unique_ptr<Session> session = *Session::Create(std::move(programs), {.seed = 7});
    std::vector<std::vector<double>> masks;
    for (int64_t run = 0; run < 8; ++run) {  // two steps
      const size_t program = run % 4 == 3 ? 0 : 1;
      EXPECT_TRUE(SetDraw(*session, run % 4, 4).ok());
      EXPECT_TRUE(session->program(program).Feed("image", std::vector<double>(2 * 784, 1.0)).ok());
      EXPECT_TRUE(session->program(program).Feed("label", {1.0, 2.0}).ok());
      EXPECT_TRUE(session->Run(program).ok());
      std::vector<double>& mask = masks.emplace_back();
      const std::vector<double> dropped = *session->program(program).Fetch("act");
      for (const double value : dropped) mask.push_back(value != 0);
    }
    return masks;
  };
  const auto masks = draws();
  for (size_t i = 0; i < masks.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(masks[i], masks[k]) << i << " " << k;
  }
  EXPECT_EQ(masks, draws());
}

TEST(MicroBatches, ResumedIsAsUninterrupted) {
  const How how{.batch = 16, .accumulate = 4, .precision = DType::kFloat32};
  const Made whole = Make(kNormalised, how), first = Make(kNormalised, how), second = Make(kNormalised, how);
  ASSERT_NE(whole.trainer, nullptr) << whole.status.message();
  ASSERT_TRUE(whole.trainer->Run({}).ok());
  ASSERT_TRUE(first.trainer->Run({.stop = [&] { return first.trainer->step() == 3; }}).ok());
  for (const checkpoint::TensorBytes& tensor : checkpoint::StateOf(first.trainer->session())) {
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), second.trainer->session().FindVariable(tensor.name)->data);
  }
  ASSERT_TRUE(second.trainer->Resume(3).ok());
  ASSERT_TRUE(second.trainer->Run({}).ok());
  EXPECT_EQ(StateOf(*second.trainer), StateOf(*whole.trainer));
}

TEST(MicroBatches, WhereBytesLieAndWhoRunsThemChangesNothing) {
  const How plain{
      .batch = 16, .accumulate = 4, .precision = DType::kFloat32, .strategy = "none", .engine = ExecutorKind::kSerial};
  const Made expected = Make(kNormalised, plain);
  ASSERT_NE(expected.trainer, nullptr) << expected.status.message();
  ASSERT_TRUE(expected.trainer->Run({}).ok());
  const State state = StateOf(*expected.trainer);
  const auto check = [&](const How& how, const std::string& what) {
    const Made made = Make(kNormalised, how);
    ASSERT_NE(made.trainer, nullptr) << what << ": " << made.status.message();
    const absl::Status status = made.trainer->Run({});
    ASSERT_TRUE(status.ok()) << what << ": " << status.message();
    EXPECT_EQ(StateOf(*made.trainer), state) << what;
  };
  std::vector<std::string> strategies = {"dynamic"};
  for (const memory::Strategy& strategy : memory::Strategies()) {
    if (strategy.name != "olla" || !memory::IlpSolvers().empty()) strategies.emplace_back(strategy.name);
  }
  for (const std::string& strategy : strategies) {
    How how = plain;
    how.strategy = strategy;
    check(how, strategy);
  }
  for (const ExecutorInfo& engine : Executors()) {
    How how = plain;
    how.strategy = "best";
    how.engine = engine.kind;
    how.streams = engine.side_by_side ? 3 : 1;
    check(how, absl::StrCat("engine ", engine.name));
  }
}

TEST(MicroBatches, TakeLessMemoryAndAllThatIsPlanned) {
  const auto bytes = [](int64_t parts) {
    const Made made = Make(LoadNetworkFile(test::SourcePath("models/resnet20.pbtxt")),
                           {.batch = 32, .accumulate = parts, .precision = DType::kFloat32});
    EXPECT_NE(made.trainer, nullptr) << made.status.message();
    if (made.trainer == nullptr) return int64_t{0};
    const Session& session = made.trainer->session();
    EXPECT_EQ(session.programs(), parts > 1 ? 2u : 1u);
    int64_t step = 0;
    for (size_t i = 0; i < session.programs(); ++i) {
      const MemoryPlan& plan = session.program(i).compiled().executable.memory;
      step = std::max(step, plan.step_bytes());
      EXPECT_EQ(plan.state_plan.arena_bytes, session.state_bytes());
    }
    EXPECT_EQ(session.step_bytes(), step);
    return session.state_bytes() + session.step_bytes();
  };
  EXPECT_LT(bytes(4), 0.4 * static_cast<double>(bytes(1)));
}

TEST(MicroBatches, SumInFloat32WhereTheNetworkHasBfloat16) {
  const Made made = Make(kNormalised, {.accumulate = 4, .precision = DType::kBFloat16});
  ASSERT_NE(made.trainer, nullptr) << made.status.message();
  int sums = 0;
  for (const Variable& variable : made.trainer->session().compiled().graph.variables()) {
    if (variable.role != VariableRole::kWithinStep || variable.name == kDrawStateName) continue;
    EXPECT_EQ(variable.type.dtype, DType::kFloat32) << variable.name;
    ++sums;
  }
  EXPECT_EQ(sums, 5 + 2);  // conv, bn and fc; mean and variance of bn
  EXPECT_TRUE(made.trainer->Run({}).ok());
}

TEST(MicroBatches, OneWhoseLossIsNotFiniteVoidsTheWholeStep) {
  const std::string path = absl::StrCat(testing::TempDir(), "/micro_batches_", getpid(), ".csv");
  {
    std::ofstream file(path);
    file << "x,y,side\n";
    // Of 32 samples, 8 a step and 2 a micro-batch, one of step 3's second micro-batch has no exponential.
    for (int i = 0; i < 32; ++i) file << (i == 19 ? 1000 : i % 7 - 3) << "," << i % 5 - 2 << "," << i % 2 << "\n";
  }
  const Made made = Make(absl::StrCat(R"(
    name: "overflows"
    input { name: "point" shape { dim: 2 } }
    input { name: "label" dtype: INT32 max_value: 2 }
    layer { name: "boom" input: "point" exp {} }
    layer { name: "bn" input: "boom" batch_norm {} }
    layer { name: "drop" input: "bn" dropout { rate: 0.1 } }
    layer { name: "fc" input: "drop" dense { units: 2 } }
    layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
    objective: "loss"
    optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
    training { steps: 4 data { shuffle: false held_back: 0 csv { file: ")",
                                      path, "\" } } }"),
                         {.batch = 8, .accumulate = 4, .precision = DType::kFloat32});
  ASSERT_NE(made.trainer, nullptr) << made.status.message();
  State before;
  const absl::Status status = made.trainer->Run({.step = [&](const Trainer::StepReport&) {
    before = StateOf(*made.trainer);
    return absl::OkStatus();
  }});
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 3: the loss is not finite"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("test.pbtxt:5:5: layer \"boom\" (exp): the first node"));
  EXPECT_EQ(made.trainer->step(), 2);
  EXPECT_EQ(StateOf(*made.trainer), before);  // statistics too
  ExpectSumsAreEmpty(*made.trainer);
  std::remove(path.c_str());
}

TEST(MicroBatches, AreOfOneSizeAndNotOfASavedPlan) {
  const std::string text = Mlp("sgd {}");
  EXPECT_EQ(std::string(Make(text, {.accumulate = 5}).status.message()),
            "accumulate: expected a divisor of the batch, 24 samples, found 5: micro-batches are of one size");
  EXPECT_THAT(std::string(Make(text, {.accumulate = 48}).status.message()), HasSubstr("24 samples, found 48"));
  EXPECT_THAT(std::string(Make(text, {.accumulate = 0}).status.message()), HasSubstr("at least 1, found 0"));
}

}  // namespace
}  // namespace snug::core
