// Updates that a step makes one after the other: what comes later is computed with what was changed before.
// matrix_test.cc and passes_test.cc run a network of two in many ways, parity_test.cc compares one with PyTorch's
// steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
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

// Two layers read an image that is a parameter, one before and one after it is changed, beside an image that lies
// channels-last.
TEST(UpdatesInTurn, AParameterIsReorderedAnew) {
  constexpr char kText[] = R"(
    input { name: "x" shape { dim: [3, 6, 6] } }
    layer { name: "b" input: "x" conv { filters: 8 kernel: 3 pad: 1 } }
    layer { name: "p" parameter { dim: [1, 8, 6, 6] init { kind: NORMAL value: 1 } } }
    layer { name: "sum" input: ["b", "p"] add {} }
    layer { name: "again" input: ["b", "p"] add {} }
    layer { name: "squared" input: "sum" square {} }
    layer { name: "squared_again" input: "again" square {} }
    layer { name: "first" input: "squared" reduce_sum {} }
    layer { name: "second" input: "squared_again" reduce_sum {} }
    objective: ["first", "second"]
    update { objective: "first" parameter: "p*" }
    update { objective: "second" parameter: "b.*" }
    optimizer { learning_rate: 0.25 sgd {} }
  )";
  const auto losses = [&](const std::set<std::string>& disabled) {
    auto session = MakeSession(kText, {.disabled_passes = disabled});
    SNUG_CHECK_OK(session.status());
    SNUG_CHECK_OK((*session)->Run());
    int reorders = 0;
    const Graph& graph = (*session)->compiled().graph;
    for (const NodeId id : graph.ProgramOrder()) {
      const Node& node = graph.node(id);
      reorders += node.op == "reorder" && graph.value(node.inputs[0]).name == "p";
    }
    return std::tuple(*(*session)->FetchScalar("first"), *(*session)->FetchScalar("second"), reorders);
  };
  const auto [first, second, reorders] = losses({});
  EXPECT_EQ(reorders, 2);
  EXPECT_NEAR(second, first / 4, 1e-5 * first);  // p - 0.25 * 2 (b + p) takes half of each sum away
  const auto [first_plain, second_plain, no_reorders] = losses({"channels_last"});
  EXPECT_EQ(no_reorders, 0);
  EXPECT_NEAR(first, first_plain, 1e-5 * first);
  EXPECT_NEAR(second, second_plain, 1e-5 * second);
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
