// Updates that a step makes one after the other: what comes later is computed with what was changed before.
// matrix_test.cc and passes_test.cc run a network of two in many ways, parity_test.cc compares one with PyTorch's
// steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::ElementsAre;

// first = a (b x), second = (a (b x))^2 with x = 1: gradients are b x and 2 a (b x) a.
std::string Product(const std::string& updates) {
  return R"(
    input { name: "x" shape { dim: 1 } }
    layer { name: "b" input: "x" dense { units: 1 bias: false }
            param { name: "weight" init { kind: CONSTANT value: 0.5 } } }
    layer { name: "a" input: "b" dense { units: 1 bias: false }
            param { name: "weight" init { kind: CONSTANT value: 2 } } }
    layer { name: "again" input: "b" dense { units: 1 bias: false } param { name: "weight" tie: "a.weight" } }
    layer { name: "first" input: "a" reduce_sum {} }
    layer { name: "squared" input: "again" square {} }
    layer { name: "second" input: "squared" reduce_sum {} }
    objective: ["first", "second"]
  )" + updates;
}

struct Stepped {
  double first = 0, second = 0, a = 0, b = 0;
};

Stepped OneStep(const std::string& updates, CompileOptions options = {}) {
  auto session = MakeSession(Product(updates), options);
  SNUG_CHECK_OK(session.status());
  SNUG_CHECK_OK((*session)->Feed("x", {1}));
  SNUG_CHECK_OK((*session)->Run());
  return {*(*session)->FetchScalar("first"), *(*session)->FetchScalar("second"),
          (*(*session)->GetVariable("a.weight"))[0], (*(*session)->GetVariable("b.weight"))[0]};
}

constexpr char kInTurn[] = R"(
  update { objective: "first" parameter: "a.*" optimizer { learning_rate: 4 sgd {} } }
  update { objective: "second" parameter: "b.*" }
  optimizer { learning_rate: 0.125 sgd {} }
)";

// All numbers are exact in bfloat16 too, where the second turn reads a copy of the weight that is made anew.
TEST(UpdatesInTurn, TheSecondReadsWhatTheFirstHasChanged) {
  for (const DType precision : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (const bool plain : {false, true}) {
      const Stepped stepped = OneStep(kInTurn, {.precision = precision, .plain_kernels = plain});
      EXPECT_EQ(stepped.first, 1) << Name(precision);   // 2 * 0.5
      EXPECT_EQ(stepped.a, 0) << Name(precision);       // 2 - 4 * 0.5
      EXPECT_EQ(stepped.second, 0) << Name(precision);  // by the new a
      EXPECT_EQ(stepped.b, 0.5) << Name(precision);     // its gradient is 0, as the new a is
    }
  }
}

TEST(UpdatesInTurn, WithoutThemAllIsChangedAtOnce) {
  const Stepped stepped = OneStep("optimizer { learning_rate: 0.125 sgd {} }");
  EXPECT_EQ(stepped.first, 1);
  EXPECT_EQ(stepped.second, 1);
  EXPECT_EQ(stepped.a, 2 - 0.125 * (0.5 + 2 * 1 * 0.5));
  EXPECT_EQ(stepped.b, 0.5 - 0.125 * (2 + 2 * 1 * 2));
}

TEST(UpdatesInTurn, LearningRatesKeepTheirRatio) {
  auto session = MakeSession(Product(kInTurn), {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->SetLearningRate(0.0625).ok());  // half of the file's
  ASSERT_TRUE((*session)->Feed("x", {1}).ok());
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(*(*session)->GetVariable("a.weight"), ElementsAre(2 - 2 * 0.5));
  EXPECT_THAT(*(*session)->GetVariable("b.weight"), ElementsAre(0.5 - 0.0625 * 2 * 0.5 * 1));
}

TEST(UpdatesInTurn, ALossThatIsNotFiniteStopsItsUpdateAndThoseAfterIt) {
  auto session = MakeSession(Product(kInTurn), {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  Session& s = **session;
  const auto run = [&](double a, double b) {
    SNUG_CHECK_OK(s.SetVariable("a.weight", {a}));
    SNUG_CHECK_OK(s.SetVariable("b.weight", {b}));
    SNUG_CHECK_OK(s.Feed("x", {1}));
    SNUG_CHECK_OK(s.Run());
    return std::pair((*s.GetVariable("a.weight"))[0], (*s.GetVariable("b.weight"))[0]);
  };
  const double huge = 1e30;
  EXPECT_EQ(run(1e20, 1e20), std::pair(double{1e20F}, double{1e20F}));       // the first overflows
  EXPECT_EQ((*s.GetVariable("state.random"))[1], 0);                         // a step that was none
  EXPECT_EQ(run(1, huge), std::pair(double{1 - 4 * 1e30F}, double{1e30F}));  // the second does, after the first
  EXPECT_EQ((*s.GetVariable("state.random"))[1], 0);
  run(1, 1);
  EXPECT_EQ((*s.GetVariable("state.random"))[1], 1);
}

}  // namespace
}  // namespace snug::core
