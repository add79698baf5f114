#include "engine/run/session/session.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

// y = w x with w = 2, loss = y^2: everything can be worked out by hand.
constexpr char kSquare[] = R"(
  name: "square"
  input { name: "x" shape { dim: 1 } }
  layer { name: "y" input: "x" param { name: "weight" init { kind: CONSTANT value: 2 } } dense { units: 1 bias: false } }
  layer { name: "loss" input: "y" input: "zero" mean_squared_error {} }
  objective: "loss"
)";

std::string Square(const std::string& optimizer) {
  std::string text = kSquare;
  text.replace(text.find("  layer"), 0, "  input { name: \"zero\" shape { dim: 1 } }\n");
  return text + optimizer;
}

std::unique_ptr<Session> MakeSquare(const std::string& optimizer, double x, CompileOptions options = {}) {
  options.precision = DType::kFloat64;
  auto session = MakeSession(Square(optimizer), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE((*session)->Feed("x", {x}).ok());
  EXPECT_TRUE((*session)->Feed("zero", {0}).ok());
  return *std::move(session);
}

double Weight(Session& session) { return session.GetVariable("y.weight")->at(0); }

TEST(Session, OneStepOfSgdIsTheFormula) {
  const auto session = MakeSquare("optimizer { learning_rate: 0.1 sgd {} }", 3);
  ASSERT_TRUE(session->Run().ok());
  EXPECT_DOUBLE_EQ(*session->FetchScalar("loss"), 36);
  EXPECT_NEAR(Weight(*session), 2 - 0.1 * (2 * 6 * 3), 1e-12);
}

TEST(Session, MomentumAndWeightDecayFollowPyTorch) {
  const auto session = MakeSquare("optimizer { learning_rate: 0.01 weight_decay: 0.5 sgd { momentum: 0.9 } }", 1);
  double w = 2;
  double v = 0;
  for (int step = 0; step < 4; ++step) {
    ASSERT_TRUE(session->Run().ok());
    v = 0.9 * v + (2 * w + 0.5 * w);
    w -= 0.01 * v;
    EXPECT_NEAR(Weight(*session), w, 1e-12) << "step " << step;
  }
}

TEST(Session, AdamWFollowsPyTorch) {
  const auto session = MakeSquare("optimizer { learning_rate: 0.01 weight_decay: 0.1 adamw {} }", 1);
  double w = 2, m = 0, v = 0;
  for (int step = 1; step <= 4; ++step) {
    ASSERT_TRUE(session->Run().ok());
    const double g = 2 * w;
    w -= 0.01 * 0.1 * w;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    w -= 0.01 * (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
    EXPECT_NEAR(Weight(*session), w, 1e-12) << "step " << step;
  }
}

TEST(Session, RmspropFollowsPyTorch) {
  for (const double momentum : {0.0, 0.9}) {
    const auto session = MakeSquare(
        absl::StrCat("optimizer { learning_rate: 0.01 weight_decay: 0.1 rmsprop { momentum: ", momentum, " } }"), 1);
    double w = 2, v = 0, velocity = 0;
    for (int step = 1; step <= 4; ++step) {
      ASSERT_TRUE(session->Run().ok());
      const double g = 2 * w + 0.1 * w;
      v = 0.99 * v + 0.01 * g * g;
      velocity = momentum * velocity + g / (std::sqrt(v) + 1e-8);
      w -= 0.01 * velocity;
      EXPECT_NEAR(Weight(*session), w, 1e-12) << "step " << step;
    }
  }
}

TEST(Session, AdagradFollowsPyTorch) {
  const auto session = MakeSquare(
      "optimizer { learning_rate: 0.1 weight_decay: 0.1 adagrad { lr_decay: 0.5 initial_accumulator_value: 3 } }", 1);
  double w = 2, sum = 3;
  for (int step = 0; step < 4; ++step) {
    ASSERT_TRUE(session->Run().ok());
    const double g = 2 * w + 0.1 * w;
    sum += g * g;
    w -= 0.1 / (1 + 0.5 * step) * g / (std::sqrt(sum) + 1e-10);
    EXPECT_NEAR(Weight(*session), w, 1e-12) << "step " << step;
  }
}

TEST(Session, LionFollowsItsPaper) {
  const auto session = MakeSquare("optimizer { learning_rate: 0.9 weight_decay: 0.1 lion { beta1: 0.5 } }", 1);
  double w = 2, m = 0;
  for (int step = 1; step <= 6; ++step) {  // w changes its sign
    ASSERT_TRUE(session->Run().ok());
    const double g = 2 * w;
    const double c = 0.5 * m + 0.5 * g;
    w -= 0.9 * ((c > 0 ? 1 : -1) + 0.1 * w);
    m = 0.99 * m + 0.01 * g;
    EXPECT_NEAR(Weight(*session), w, 1e-12) << "step " << step;
  }
}

TEST(Session, LambFollowsItsPaper) {
  const auto session = MakeSquare("optimizer { learning_rate: 0.01 weight_decay: 0.1 lamb {} }", 1);
  double w = 2, m = 0, v = 0;
  for (int step = 1; step <= 4; ++step) {
    ASSERT_TRUE(session->Run().ok());
    const double g = 2 * w;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double r = (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-6);
    const double u = r + 0.1 * w;
    w -= 0.01 * (std::abs(w) / std::abs(u)) * u;
    EXPECT_NEAR(Weight(*session), w, 1e-12) << "step " << step;
  }
}

TEST(Session, AveragesBeginWithTheFirstStepAndFollowTheOthers) {
  const auto session = MakeSquare("optimizer { learning_rate: 0.25 average { decay: 0.75 } sgd {} }",
                                  std::numeric_limits<double>::infinity());
  const auto average = [&] { return session->GetVariable("y.weight/average")->at(0); };
  EXPECT_EQ(average(), 2);
  ASSERT_TRUE(session->Run().ok());  // its loss is not finite: it does not count
  EXPECT_EQ(average(), 2);
  const double weights[] = {1, 0.5, 0.25};
  const double averages[] = {1, 0.75 * 1 + 0.25 * 0.5, 0.75 * 0.875 + 0.25 * 0.25};
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(session->Feed("x", {1}).ok());
    ASSERT_TRUE(session->Feed("zero", {0}).ok());
    ASSERT_TRUE(session->Run().ok());
    EXPECT_DOUBLE_EQ(Weight(*session), weights[step]);
    EXPECT_DOUBLE_EQ(average(), averages[step]);
  }
}

TEST(Session, ClippingScalesToTheGlobalNorm) {
  const auto session = MakeSquare("optimizer { learning_rate: 1 clip_norm: 0.5 sgd {} }", 3, {.gradient_norm = true});
  ASSERT_TRUE(session->Run().ok());
  EXPECT_NEAR(*session->FetchScalar("gradient_norm"), 36, 1e-12);
  EXPECT_NEAR(Weight(*session), 2 - 0.5 * 36 / (36 + 1e-6), 1e-9);
}

TEST(Session, LearningRateIsAVariable) {
  const auto session = MakeSquare("optimizer { learning_rate: 0.1 sgd {} }", 1);
  ASSERT_TRUE(session->SetLearningRate(0).ok());
  ASSERT_TRUE(session->Run().ok());
  EXPECT_EQ(Weight(*session), 2);
}

TEST(Session, AStepWhoseLossIsNotFiniteChangesNothing) {
  const auto session =
      MakeSquare("optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }", std::numeric_limits<double>::infinity());
  const std::vector<double> state = *session->GetVariable("state.random");
  ASSERT_TRUE(session->Run().ok());
  EXPECT_FALSE(std::isfinite(*session->FetchScalar("loss")));
  EXPECT_EQ(Weight(*session), 2);
  EXPECT_EQ(session->GetVariable("y.weight/momentum")->at(0), 0);
  EXPECT_EQ(*session->GetVariable("state.random"), state);
  ASSERT_TRUE(session->Feed("x", {1}).ok());
  ASSERT_TRUE(session->Run().ok());
  EXPECT_NE(Weight(*session), 2);
  EXPECT_THAT(*session->GetVariable("state.random"), ElementsAre(1, 1));
}

TEST(Session, SaysWhatItHasWhenAskedForSomethingElse) {
  const auto session = MakeSquare("", 1);
  EXPECT_THAT(std::string(session->Feed("z", {1}).message()), HasSubstr("no input \"z\"; there are: x, zero"));
  EXPECT_THAT(std::string(session->Feed("x", {1, 2}).message()), HasSubstr("expected 1 numbers, found 2"));
  EXPECT_THAT(std::string(session->Fetch("y").status().message()), HasSubstr("no output \"y\"; there are: loss"));
  EXPECT_EQ(session->GetVariable("w").status().message(), "no variable \"w\"");
}

TEST(Session, AnyValueAndGradientAskedForBeforehandCanBeFetched) {
  const auto session = MakeSquare("", 3, {.fetch = {"y"}, .gradients = {"x", "y.weight"}});
  ASSERT_TRUE(session->Run().ok());
  EXPECT_THAT(*session->Fetch("y"), ElementsAre(6));
  EXPECT_THAT(*session->Fetch("d(x)"), ElementsAre(DoubleNear(24, 1e-12)));
  EXPECT_THAT(*session->Fetch("d(y.weight)"), ElementsAre(DoubleNear(36, 1e-12)));
}

TEST(Session, RunErrorsNameTheLayerAndItsPlace) {
  auto session = MakeSession(R"(
    input { name: "x" shape { dim: 3 } }
    input { name: "label" dtype: INT32 }
    layer { name: "loss" input: "x" input: "label" softmax_cross_entropy {} }
    objective: "loss"
  )",
                             {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Feed("label", {7}).ok());
  const absl::Status status = (*session)->Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("test:4:5: layer \"loss\" (softmax_cross_entropy): labels: row 0"));
}

TEST(Session, TiedParametersAreOneVariable) {
  auto session = MakeSession(R"(
    input { name: "x" shape { dim: 2 } }
    layer { name: "a" input: "x" dense { units: 2 bias: false } }
    layer { name: "b" input: "a" param { name: "weight" tie: "a.weight" } dense { units: 2 bias: false } }
    layer { name: "loss" input: "b" input: "x" mean_squared_error {} }
    objective: "loss"
  )",
                             {.precision = DType::kFloat64, .gradients = {"a.weight"}});
  ASSERT_TRUE(session.ok()) << session.status().message();
  int parameters = 0;
  for (const Variable& v : (*session)->compiled().graph.variables()) parameters += v.role == VariableRole::kParameter;
  EXPECT_EQ(parameters, 1);
  // Central difference through both uses.
  const auto loss_at = [&](double delta) {
    std::vector<double> w = {0.3, -0.2, 0.5, 0.1};
    w[1] += delta;
    EXPECT_TRUE((*session)->SetVariable("a.weight", w).ok());
    EXPECT_TRUE((*session)->SetLearningRate(0).ok());
    EXPECT_TRUE((*session)->Run().ok());
    return *(*session)->FetchScalar("loss");
  };
  const double numeric = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5;
  loss_at(0);
  EXPECT_NEAR((*session)->Fetch("d(a.weight)")->at(1), numeric, 1e-8);
}

// One objective trains what another one only goes through, as a generator's goes through the discriminator.
TEST(Session, AParameterThatIsTiedAndFrozenIsTrainedByItsOtherUsesOnly) {
  const auto gradient = [](const char* parameter, const std::string& frozen, const std::string& objectives) {
    const std::string text = R"(
      input { name: "x" shape { dim: 2 } }
      layer { name: "made" input: "x" dense { units: 2 bias: false } }
      layer { name: "judge" input: "x" dense { units: 2 bias: false } }
      layer {
        name: "again" input: "made"
        dense { units: 2 bias: false }
        param { name: "weight" tie: "judge.weight" )" +
                             frozen + R"( }
      }
      layer { name: "of_judge" input: "judge" input: "x" mean_squared_error {} }
      layer { name: "of_made" input: "again" input: "x" mean_squared_error {} }
      objective: )" + objectives;
    auto session = MakeSession(text, {.precision = DType::kFloat64, .gradients = {parameter}}, 5);
    EXPECT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE((*session)->Run().ok());
    return *(*session)->Fetch(std::string("d(") + parameter + ")");
  };
  const std::string both = "[\"of_judge\", \"of_made\"]";
  EXPECT_EQ(gradient("made.weight", "frozen: true", both), gradient("made.weight", "", both));
  EXPECT_EQ(gradient("judge.weight", "frozen: true", both), gradient("judge.weight", "", "\"of_judge\""));
  EXPECT_NE(gradient("judge.weight", "", both), gradient("judge.weight", "", "\"of_judge\""));
}

TEST(Session, FrozenParametersStayAndLearningRateMultipliersCount) {
  auto session = MakeSession(R"(
    input { name: "x" shape { dim: 2 } }
    layer { name: "a" input: "x" param { name: "weight" frozen: true } dense { units: 2 bias: false } }
    layer { name: "b" input: "a" param { name: "weight" lr_mult: 0 } dense { units: 2 bias: false } }
    layer { name: "c" input: "b" dense { units: 2 bias: false } }
    layer { name: "loss" input: "c" input: "x" mean_squared_error {} }
    objective: "loss"
    optimizer { learning_rate: 0.5 sgd {} }
  )",
                             {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto read = [&](const char* name) { return *(*session)->GetVariable(name); };
  const auto a = read("a.weight"), b = read("b.weight"), c = read("c.weight");
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_EQ(read("a.weight"), a);
  EXPECT_EQ(read("b.weight"), b);
  EXPECT_NE(read("c.weight"), c);
}

TEST(Session, TheSameSeedGivesTheSameBits) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("lenet");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<std::vector<double>> losses;
  for (const uint64_t seed : {5, 5, 6}) {
    auto session = MakeSession(*loaded, {.batch = 4, .threads = 2}, seed);
    ASSERT_TRUE(session.ok()) << session.status().message();
    losses.push_back(Losses(**session, 5));
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_NE(losses[0], losses[2]);
}

}  // namespace
}  // namespace snug::core
