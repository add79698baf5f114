// Loops and branches: what NNC's own tests ask of them, what ends a loop, and that a loop is the straight line of its
// rounds, bit for bit, with nothing moved between them.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;
using testing::Pointwise;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A body that multiplies.
constexpr char kTimes[] = R"(
block { name: "times" input: "x" input: "by" layer { name: "y" input: "$x" input: "$by" mul {} } output: "y" }
)";

// A number each, without a batch.
std::string NumbersCalled(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, "input { name: \"", name, "\" no_batch: true }\n");
  return text;
}

// What a loop of kTimes does, written out: layers "<name>1", "<name>2", ...
std::string Multiplied(const std::string& name, std::string from, const std::string& by, int rounds) {
  std::string text;
  for (int i = 1; i <= rounds; ++i) {
    const std::string next = absl::StrCat(name, i);
    absl::StrAppend(&text, "layer { name: \"", next, "\" input: \"", from, "\" input: \"", by, "\" mul {} }\n");
    from = next;
  }
  return text;
}

// A loop beside the same written out, both without passes: the same bits, but for the gradients of what all rounds
// read. Theirs are sums over rounds: from the last to the first in a loop, and from the first to the last where it is
// written out.
void ExpectStraightLine(const std::string& loop, const std::string& written,
                        const std::map<std::string, Numbers>& feeds, const std::vector<std::string>& same,
                        const std::vector<std::string>& sums, const CompileOptions& options) {
  std::vector<std::string> fetched = same;
  fetched.insert(fetched.end(), sums.begin(), sums.end());
  auto found = RunBothWays(loop, feeds, fetched, AsWritten(options));
  auto expected = RunOnce(written, feeds, fetched, AsWritten(options));
  for (const std::string& name : same) EXPECT_TRUE(HaveSameBits(found[name], expected[name])) << name;
  for (const std::string& name : sums) {
    ASSERT_FALSE(expected[name].empty()) << name;
    EXPECT_THAT(found[name], Pointwise(DoubleNear(1e-15 * std::abs(expected[name][0])), expected[name])) << name;
  }
}

TEST(ControlFlow, ANumberToTheFifth) {
  const std::string text = absl::StrCat(kTimes, NumbersCalled({"a", "b"}), R"(
    layer { name: "y" input: "a" input: "b" loop { body: "times" times: 5 carry { input: "x" output: "y" } } }
    objective: "y")");
  const std::string written = absl::StrCat(NumbersCalled({"a", "b"}), Multiplied("p", "a", "b", 5),
                                           R"(layer { name: "y" input: "p5" scale {} } objective: "y")");
  ExpectStraightLine(text, written, {{"a", {0.34}}, {"b", {1.11}}}, {"y", "d(a)"}, {"d(b)"}, InDouble({"a", "b"}));
  auto found = RunBothWays(text, {{"a", {0.34}}, {"b", {1.11}}}, {"y", "d(a)", "d(b)"}, InDouble({"a", "b"}));
  double expected = 0.34;
  for (int i = 0; i < 5; ++i) expected *= 1.11;
  EXPECT_THAT(found["y"], ElementsAre(expected));
  EXPECT_NEAR(found["d(a)"][0], std::pow(1.11, 5), 1e-14);
  EXPECT_NEAR(found["d(b)"][0], 0.34 * 5 * std::pow(1.11, 4), 1e-14);
}

// z0 is what the loop begins with, and is read again after it.
TEST(ControlFlow, WhatALoopBeginsWithIsReadAfterIt) {
  const std::string text = absl::StrCat(kTimes, NumbersCalled({"x", "y", "z0"}), R"(
    layer { name: "one" constant { value: 1 } }
    layer { name: "power" input: "one" input: "x" loop { body: "times" times: 5 carry { input: "x" output: "y" } } }
    layer { name: "x5y" input: "power" input: "y" mul {} }
    layer { name: "z5" input: "z0" input: "x" loop { body: "times" times: 5 carry { input: "x" output: "y" } } }
    layer { name: "z5y" input: "z5" input: "y" mul {} }
    layer { name: "z" input: "z5y" input: "z0" add {} }
    objective: "z" output: "x5y")");
  const std::string written =
      absl::StrCat(NumbersCalled({"x", "y", "z0"}), "layer { name: \"one\" constant { value: 1 } }\n",
                   Multiplied("p", "one", "x", 5), Multiplied("q", "z0", "x", 5), R"(
    layer { name: "x5y" input: "p5" input: "y" mul {} }
    layer { name: "z5y" input: "q5" input: "y" mul {} }
    layer { name: "z" input: "z5y" input: "z0" add {} }
    objective: "z" output: "x5y")");
  const std::map<std::string, Numbers> feeds = {{"x", {1.51}}, {"y", {0.71}}, {"z0", {3.3}}};
  ExpectStraightLine(text, written, feeds, {"x5y", "z", "d(z0)", "d(y)"}, {"d(x)"}, InDouble({"x", "y", "z0"}));
  auto found = RunBothWays(text, {{"x", {1.5}}, {"y", {0.7}}, {"z0", {3}}}, {"x5y", "z", "d(z0)", "d(x)", "d(y)"},
                           InDouble({"x", "y", "z0"}));
  const double x5 = std::pow(1.5, 5);
  EXPECT_NEAR(found["x5y"][0], x5 * 0.7, 1e-14);
  EXPECT_NEAR(found["z"][0], 3 * x5 * 0.7 + 3, 1e-13);
  EXPECT_NEAR(found["d(z0)"][0], x5 * 0.7 + 1, 1e-13);
  EXPECT_NEAR(found["d(x)"][0], 3 * 5 * std::pow(1.5, 4) * 0.7, 1e-12);
  EXPECT_NEAR(found["d(y)"][0], 3 * x5, 1e-13);
}

constexpr char kNested[] = R"(
block { name: "outer" input: "x" input: "by"
  layer { name: "inner" input: "$x" input: "$by" loop { body: "times" times: 5 carry { input: "x" output: "y" } } }
  layer { name: "y" input: "inner" scale { factor: 0.5 } }
  output: "y" }
layer { name: "y" input: "a" input: "b" loop { body: "outer" times: 5 carry { input: "x" output: "y" } } }
objective: "y"
)";

TEST(ControlFlow, FiveTimesFiveNested) {
  std::string written = NumbersCalled({"a", "b"}), from = "a";
  for (int i = 0; i < 5; ++i) {
    const std::string name = absl::StrCat("p", i, "_"), half = absl::StrCat("half", i);
    absl::StrAppend(&written, Multiplied(name, from, "b", 5), "layer { name: \"", half, "\" input: \"", name,
                    "5\" scale { factor: 0.5 } }\n");
    from = half;
  }
  absl::StrAppend(&written, "layer { name: \"y\" input: \"half4\" scale {} } objective: \"y\"");
  ExpectStraightLine(absl::StrCat(kTimes, NumbersCalled({"a", "b"}), kNested), written, {{"a", {0.34}}, {"b", {1.11}}},
                     {"y", "d(a)"}, {"d(b)"}, InDouble({"a", "b"}));
  auto found = RunBothWays(absl::StrCat(kTimes, NumbersCalled({"a", "b"}), kNested), {{"a", {0.34}}, {"b", {1.11}}},
                           {"y", "d(a)", "d(b)"}, InDouble({"a", "b"}));
  double expected = 0.34;
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 5; ++k) expected *= 1.11;
    expected *= 0.5;
  }
  EXPECT_THAT(found["y"], ElementsAre(expected));
  EXPECT_NEAR(found["d(b)"][0], 25 * expected / 1.11, 1e-14);
  EXPECT_NEAR(found["d(a)"][0], expected / 0.34, 1e-14);
}

TEST(ControlFlow, LogOfAProductFiveTimes) {
  const std::string text = R"(
    block { name: "log_of_product" input: "x" input: "y"
      layer { name: "p" input: "$x" input: "$y" mul {} }
      layer { name: "next" input: "p" log {} }
      output: "next" }
    input { name: "x" shape { dim: 3 } }
    input { name: "y" shape { dim: 3 } }
    layer { name: "z" input: "x" input: "y" loop { body: "log_of_product" times: 5 carry { input: "y" output: "next" } } }
    objective: "z")";
  const Numbers x = {7, 3.5, 20}, y = {2, 5, 0.7};
  auto found = RunBothWays(text, {{"x", x}, {"y", y}}, {"z", "d(x)", "d(y)"}, InDouble({"x", "y"}));
  Numbers value = y, by_x(3, 0), by_y(3, 1);
  for (int i = 0; i < 5; ++i) {  // d(log(x v)) = dx / x + dv / v
    for (size_t k = 0; k < 3; ++k) {
      by_x[k] = 1 / x[k] + by_x[k] / value[k];
      by_y[k] = by_y[k] / value[k];
      value[k] = std::log(x[k] * value[k]);
    }
  }
  EXPECT_THAT(found["z"], Pointwise(DoubleNear(1e-14), value));
  EXPECT_THAT(found["d(x)"], Pointwise(DoubleNear(1e-14), by_x));
  EXPECT_THAT(found["d(y)"], Pointwise(DoubleNear(1e-14), by_y));
}

// x^2, log x and 3 x + w, where only the branch that is taken has a gradient: log of a negative number is none.
constexpr char kPieces[] = R"(
block { name: "squared" input: "x" layer { name: "y" input: "$x" square {} } }
block { name: "logarithm" input: "x" layer { name: "y" input: "$x" log {} } }
block { name: "line" input: "x"
  layer { name: "w" parameter { dim: 1 init { kind: CONSTANT value: 0.25 } } }
  layer { name: "slope" input: "$x" scale { factor: 3 } }
  layer { name: "y" input: "slope" input: "w" add {} } }
)";

TEST(ControlFlow, EveryBranchOfAFunctionInPieces) {
  const std::string text = absl::StrCat(kPieces, R"(
    input { name: "which" dtype: INT32 no_batch: true }
    input { name: "x" shape { dim: 1 } }
    layer { name: "y" input: "which" input: "x" branch { body: "squared" body: "logarithm" body: "line" } }
    objective: "y")");
  const Numbers values = {1.44, kNan, -3.6 + 0.25};
  const Numbers slopes = {-2.4, 1 / -1.2, 3};
  for (int which = 0; which < 3; ++which) {
    SCOPED_TRACE(which);
    const auto at = static_cast<size_t>(which);
    auto found = RunBothWays(text, {{"which", {1.0 * which}}, {"x", {-1.2}}}, {"y", "d(x)", "d(y.2.w)"},
                             InDouble({"x", "y.2.w"}));
    EXPECT_THAT(found["y"], ElementsAre(std::isnan(values[at]) ? testing::Matcher<double>(IsNan())
                                                               : testing::DoubleNear(values[at], 1e-14)));
    EXPECT_THAT(found["d(x)"], ElementsAre(DoubleNear(slopes[at], 1e-14)));
    EXPECT_THAT(found["d(y.2.w)"], ElementsAre(which == 2 ? 1 : 0));
  }
}

TEST(ControlFlow, ASelectorThatIsNoBranchGivesNan) {
  const std::string text = absl::StrCat(kPieces, R"(
    input { name: "which" dtype: INT32 }
    input { name: "x" shape { dim: 1 } }
    batch: 5
    layer { name: "y" input: "which" input: "x" branch { body: "squared" body: "line" } }
    objective: "y")");
  auto found = RunBothWays(text, {{"which", {0, 1, 2, -1, 0}}, {"x", {2, 2, 2, 2, 3}}}, {"y", "d(x)"}, InDouble({"x"}));
  EXPECT_THAT(found["y"], ElementsAre(4, 6.25, IsNan(), IsNan(), 9));
  EXPECT_THAT(found["d(x)"], ElementsAre(4, 3, 0, 0, 6));
}

// One body for each sample by its own sign.
TEST(ControlFlow, EachSampleTakesItsOwnBranch) {
  const std::string text = absl::StrCat(kPieces, R"(
    batch: 4
    input { name: "which" dtype: INT32 max_value: 3 }
    input { name: "x" shape { dim: 1 } }
    layer { name: "y" input: "which" input: "x" branch { body: "squared" body: "logarithm" body: "line" } }
    objective: "y")");
  auto found = RunBothWays(text, {{"which", {1, 0, 2, 0}}, {"x", {2, -3, 0, 0}}}, {"y", "d(x)", "d(y.2.w)"},
                           InDouble({"x", "y.2.w"}));
  EXPECT_THAT(found["y"], ElementsAre(std::log(2.0), 9, 0.25, 0));
  EXPECT_THAT(found["d(x)"], ElementsAre(0.5, -6, 3, 0));
  EXPECT_THAT(found["d(y.2.w)"], ElementsAre(1));
}

// ---- no data is moved between rounds ----

// Two carries that change places in each round, beside a captured weight and a slice.
constexpr char kSwap[] = R"(
block { name: "swap" input: "a" input: "b" input: "s" input: "t"
  layer { name: "fc" input: "$a" dense { units: 4 } }
  layer { name: "mixed" input: "fc" input: "$s" mul {} }
  layer { name: "next" input: "mixed" tanh {} }
  output: "$b" output: "next" }
batch: 2
input { name: "x" shape { dim: 4 } }
input { name: "y" shape { dim: 4 } }
input { name: "s" shape { dim: [6, 4] } }
layer { name: "l" input: "x" input: "y" input: "s" loop { body: "swap" index: "t" scan { input: "s" }
  carry { input: "a" output: "b" } carry { input: "b" output: "next" } collect { output: "next" axis: -1 } } }
layer { name: "sum" input: "l" input: "l:1" add {} }
layer { name: "loss" input: "sum" reduce_sum {} }
objective: "loss"
output: "l:2"
)";

TEST(ControlFlow, NothingIsMovedBetweenRounds) {
  CompileOptions options = InDouble();
  options.training = false;
  const absl::StatusOr<Graph> graph = GraphAfter(kSwap, "35_unroll", options);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::map<std::string, int> ops;
  for (const NodeId id : graph->ProgramOrder()) ++ops[graph->node(id).op];
  // Each round has what its body has; slices and what is collected are views or parts of one node.
  const std::map<std::string, int> expected = {{"dense", 6},  {"mul", 6},         {"tanh", 6}, {"split", 1},
                                               {"concat", 1}, {"reshape_to", 12}, {"add", 1},  {"reduce_sum", 1}};
  EXPECT_EQ(ops, expected);
  for (const NodeId id : graph->ProgramOrder()) EXPECT_TRUE(graph->node(id).subgraphs.empty());
}

// The same rounds, written one by one.
std::string SwapUnrolled() {
  std::string text = R"(
batch: 2
input { name: "x" shape { dim: 4 } }
input { name: "y" shape { dim: 4 } }
input { name: "s" shape { dim: [6, 4] } }
)";
  std::string a = "x", b = "y", tie;
  std::string parts;
  for (int i = 0; i < 6; ++i) {
    const std::string weights =
        i == 0 ? "" : R"( param { name: "weight" tie: "fc0.weight" } param { name: "bias" tie: "fc0.bias" })";
    absl::SubstituteAndAppend(&text, R"(
layer { name: "s$0" input: "s" slice { axis: 1 begin: $0 end: $3 } }
layer { name: "r$0" input: "s$0" reshape { dim: 4 } }
layer { name: "fc$0" input: "$1" dense { units: 4 }$2 }
layer { name: "m$0" input: "fc$0" input: "r$0" mul {} }
layer { name: "n$0" input: "m$0" tanh {} }
layer { name: "p$0" input: "n$0" reshape { dim: [4, 1] } }
)",
                              i, a, weights, i + 1);
    absl::StrAppend(&parts, " input: \"p", i, "\"");
    a = b;
    b = absl::StrCat("n", i);
  }
  return absl::StrCat(text, "layer { name: \"sum\" input: \"", a, "\" input: \"", b,
                      "\" add {} }\nlayer { name: \"all\"", parts, R"( concat { axis: 2 } }
layer { name: "loss" input: "sum" reduce_sum {} }
objective: "loss"
output: "all"
)");
}

Numbers Ramp(size_t n, double from) {
  Numbers values(n);
  for (size_t i = 0; i < n; ++i) values[i] = std::sin(from + 1.7 * static_cast<double>(i));
  return values;
}

// Gradients of what all rounds read are the same only to rounding (ExpectStraightLine).
TEST(ControlFlow, ALoopIsItsRoundsWrittenOneByOne) {
  const std::map<std::string, Numbers> feeds = {{"x", Ramp(8, 0)}, {"y", Ramp(8, 1)}, {"s", Ramp(48, 2)}};
  const auto run = [&](const std::string& text, const std::string& layer, const std::string& collected) {
    const std::string weight = layer + ".weight", bias = layer + ".bias";
    CompileOptions options = AsWritten(InDouble({"x", "y", "s", weight}));
    options.fetch = {collected};
    auto session = MakeSession(text, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<Numbers> found;
    if (!session.ok()) return found;
    EXPECT_TRUE((*session)->SetVariable(weight, Ramp(16, 3)).ok());
    EXPECT_TRUE((*session)->SetVariable(bias, Ramp(4, 4)).ok());
    for (const auto& [name, values] : feeds) EXPECT_TRUE((*session)->Feed(name, values).ok());
    EXPECT_TRUE((*session)->Run().ok());
    for (const std::string& name : {std::string("loss"), collected, std::string("d(x)"), std::string("d(y)"),
                                    std::string("d(s)"), absl::StrCat("d(", weight, ")")}) {
      found.push_back(*(*session)->Fetch(name));
    }
    return found;
  };
  const std::vector<Numbers> loop = run(kSwap, "l.fc", "l:2"), rounds = run(SwapUnrolled(), "fc0", "all");
  ASSERT_EQ(loop.size(), 6);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(loop[i], rounds[i]) << i;
  EXPECT_THAT(loop[5], Pointwise(DoubleNear(1e-12), rounds[5]));
}

// ---- loops that end at run time ----

constexpr char kCounted[] = R"(
block { name: "root" input: "x" input: "w"
  layer { name: "p" input: "$x" input: "$w" mul {} }
  layer { name: "y" input: "p" sqrt {} }
  output: "y" output: "p" }
)";

// sqrt(w x), `n` times.
std::pair<double, std::pair<double, double>> Roots(double x, double w, int n) {
  double by_x = 1, by_w = 0;
  for (int i = 0; i < n; ++i) {
    const double y = std::sqrt(w * x);
    by_x *= w / (2 * y);
    by_w = (x + w * by_w) / (2 * y);
    x = y;
  }
  return {x, {by_x, by_w}};
}

TEST(ControlFlow, ACountFromAnInput) {
  const std::string text = absl::StrCat(kCounted, NumbersCalled({"x", "w"}), R"(
    input { name: "n" dtype: INT32 no_batch: true }
    layer { name: "l" input: "x" input: "w" input: "n" loop { body: "root" times: 4 counted: true
      carry { input: "x" output: "y" } collect { output: "p" axis: 0 } } }
    objective: "l" output: "l:1")");
  for (int n = -1; n <= 5; ++n) {
    SCOPED_TRACE(n);
    auto found = RunBothWays(text, {{"x", {3}}, {"w", {0.5}}, {"n", {1.0 * n}}}, {"l", "l:1", "d(x)", "d(w)"},
                             InDouble({"x", "w"}));
    if (n == 5) {  // one more than there can be
      EXPECT_THAT(found["l"], ElementsAre(IsNan()));
      EXPECT_THAT(found["l:1"], Each(IsNan()));
      continue;
    }
    const auto [value, slopes] = Roots(3, 0.5, n);
    EXPECT_THAT(found["l"], ElementsAre(DoubleNear(value, 1e-14)));
    EXPECT_THAT(found["d(x)"], ElementsAre(DoubleNear(slopes.first, 1e-14)));
    EXPECT_THAT(found["d(w)"], ElementsAre(DoubleNear(slopes.second, 1e-14)));
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(found["l:1"][static_cast<size_t>(i)], i < n ? 0.5 * Roots(3, 0.5, i).first : 0, 1e-14);
    }
  }
}

// A round that does not count divides by zero, and its gradient would be NaN: zero times infinity.
TEST(ControlFlow, WhatIsNotFiniteInARoundThatDoesNotCountDoesNotCount) {
  const std::string text = absl::StrCat(kCounted, NumbersCalled({"x", "w"}), R"(
    input { name: "n" dtype: INT32 no_batch: true }
    layer { name: "l" input: "x" input: "w" input: "n" loop { body: "root" times: 4 counted: true
      carry { input: "x" output: "y" } } }
    layer { name: "scaled" input: "l" input: "w" mul {} }
    objective: "scaled")");
  // sqrt(0) has an infinite slope: with no rounds it must not show.
  auto found =
      RunBothWays(text, {{"x", {0}}, {"w", {2}}, {"n", {0}}}, {"scaled", "d(x)", "d(w)"}, InDouble({"x", "w"}));
  EXPECT_THAT(found["scaled"], ElementsAre(0));
  EXPECT_THAT(found["d(x)"], ElementsAre(2));
  EXPECT_THAT(found["d(w)"], ElementsAre(0));
}

TEST(ControlFlow, EachSampleHasACountOfItsOwn) {
  const std::string text = absl::StrCat(kCounted, R"(
    batch: 4
    input { name: "x" shape { dim: 1 } }
    input { name: "w" no_batch: true }
    input { name: "n" dtype: INT32 }
    layer { name: "l" input: "x" input: "w" input: "n" loop { body: "root" times: 3 counted: true
      carry { input: "x" output: "y" } } }
    objective: "l")");
  const Numbers x = {3, 0.5, 2, 7}, n = {0, 3, 1, 2};
  auto found = RunBothWays(text, {{"x", x}, {"w", {0.5}}, {"n", n}}, {"l", "d(x)", "d(w)"}, InDouble({"x", "w"}));
  double by_w = 0;
  for (size_t i = 0; i < 4; ++i) {
    const auto [value, slopes] = Roots(x[i], 0.5, static_cast<int>(n[i]));
    EXPECT_NEAR(found["l"][i], value, 1e-14);
    EXPECT_NEAR(found["d(x)"][i], slopes.first, 1e-14);
    by_w += slopes.second;
  }
  EXPECT_NEAR(found["d(w)"][0], by_w, 1e-14);
}

// A sample that has stopped would go on to the logarithm of a negative number, beside one that has not; the weight's
// gradient is the sum over both.
TEST(ControlFlow, WhatASampleWouldBeAfterItsCountDoesNotCount) {
  const std::string text = R"(
    block { name: "log_of_product" input: "x" input: "w"
      layer { name: "p" input: "$x" input: "$w" mul {} }
      layer { name: "y" input: "p" log {} }
      output: "y" }
    batch: 2
    input { name: "x" shape { dim: 1 } }
    input { name: "w" no_batch: true }
    input { name: "n" dtype: INT32 }
    layer { name: "l" input: "x" input: "w" input: "n" loop { body: "log_of_product" times: 3 counted: true
      carry { input: "x" output: "y" } } }
    objective: "l")";
  const Numbers x = {2, 20}, n = {2, 3};
  auto found = RunBothWays(text, {{"x", x}, {"w", {1}}, {"n", n}}, {"l", "d(x)", "d(w)"}, InDouble({"x", "w"}));
  double by_w = 0;
  for (size_t i = 0; i < 2; ++i) {
    double value = x[i], slope_x = 1, slope_w = 0;
    for (int round = 0; round < static_cast<int>(n[i]); ++round) {  // d(log(w v)) = dw / w + dv / v
      slope_x /= value;
      slope_w = 1 + slope_w / value;
      value = std::log(value);
    }
    EXPECT_NEAR(found["l"][i], value, 1e-14);
    EXPECT_NEAR(found["d(x)"][i], slope_x, 1e-14);
    by_w += slope_w;
  }
  EXPECT_NEAR(found["d(w)"][0], by_w, 1e-13);
}

// A weight and a table that are as long as the batch are not mistaken for rows of samples: their gradients are whole,
// and every sample reads all of them.
TEST(ControlFlow, WhatIsAsLongAsTheBatchIsNoSample) {
  const auto loop = [](const std::string& input, const std::string& option) {
    return absl::StrCat(R"(
    block { name: "step" input: "x" input: "row" input: "t"
      layer { name: "fc" input: "$x" dense { units: 2 bias: false } }
      layer { name: "moved" input: "fc" input: "$row" add {} }
      layer { name: "all" input: "moved" input: "$t" add {} }
      layer { name: "y" input: "all" tanh {} }
      output: "y" }
    batch: 2
    input { name: "x" shape { dim: 2 } }
    input { name: "rows" shape { dim: [3, 2] } no_batch: true }
    input { name: "t" shape { dim: [2, 2] } no_batch: true }
    input { name: "n" dtype: INT32 max_value: 4 }
    layer { name: "l" input: "x" input: "rows" input: "t" )",
                        input, " loop { body: \"step\" ", option, R"(
      scan { input: "row" axis: 0 } carry { input: "x" output: "y" } } }
    objective: "l")");
  };
  const std::vector<std::string> all = {"x", "rows", "t", "l.fc.weight"};
  std::vector<std::string> fetched = {"l"};
  for (const std::string& name : all) fetched.push_back(absl::StrCat("d(", name, ")"));
  std::map<std::string, Numbers> feeds = {{"x", Ramp(4, 0)}, {"rows", Ramp(6, 1)}, {"t", Ramp(4, 2)}};
  const auto expected = RunBothWays(loop("", ""), feeds, fetched, AsWritten(InDouble(all)));
  feeds["n"] = {3, 3};
  auto found = RunBothWays(loop("input: \"n\"", "counted: true"), feeds, fetched, AsWritten(InDouble(all)));
  // Without a count, one product after the loop gives the weight's gradient.
  EXPECT_THAT(found["d(l.fc.weight)"], Pointwise(DoubleNear(1e-14), expected.at("d(l.fc.weight)")));
  found["d(l.fc.weight)"] = expected.at("d(l.fc.weight)");
  EXPECT_EQ(found, expected);
}

TEST(ControlFlow, AWeightAsLongAsTheBatchIsNoSampleOfABranch) {
  const std::string text = R"(
    block { name: "fc" layer { name: "y" input: "$input" dense { units: 2 } } }
    block { name: "same" layer { name: "y" input: "$input" scale {} } }
    batch: 2
    input { name: "x" shape { dim: 2 } }
    input { name: "which" dtype: INT32 max_value: 2 }
    layer { name: "l" input: "which" input: "x" branch { body: "fc" body: "same" } }
    objective: "l")";
  auto found = RunBothWays(text, {{"x", {1, 2, 3, 4}}, {"which", {1, 0}}}, {"d(l.0.y.weight)", "d(l.0.y.bias)"},
                           InDouble({"l.0.y.weight", "l.0.y.bias"}));
  EXPECT_THAT(found["d(l.0.y.weight)"], ElementsAre(3, 4, 3, 4));  // of the second sample alone
  EXPECT_THAT(found["d(l.0.y.bias)"], ElementsAre(1, 1));
}

// Doubles while it is below the limit: the condition is computed in the body, before and beside what it guards.
constexpr char kWhile[] = R"(
block { name: "double" input: "x" input: "limit"
  layer { name: "left" input: "$limit" input: "$x" sub {} }
  layer { name: "go" input: "left" relu {} }
  layer { name: "inverse" input: "left" sqrt {} }      # NaN once the limit is passed
  layer { name: "zero" input: "inverse" scale { factor: 0 } }
  layer { name: "twice" input: "$x" scale { factor: 2 } }
  layer { name: "y" input: "twice" input: "zero" add {} }
  output: "y" output: "go" }
)";

TEST(ControlFlow, AConditionComputedInTheBody) {
  const std::string text = absl::StrCat(kWhile, NumbersCalled({"x", "limit"}), R"(
    layer { name: "l" input: "x" input: "limit" loop { body: "double" times: 6 condition: "go"
      carry { input: "x" output: "y" } } }
    objective: "l")");
  const auto ends_at = [&](double x, double limit) {
    auto found =
        RunBothWays(text, {{"x", {x}}, {"limit", {limit}}}, {"l", "d(x)", "d(limit)"}, InDouble({"x", "limit"}));
    return Numbers{found["l"][0], found["d(x)"][0], found["d(limit)"][0]};
  };
  EXPECT_THAT(ends_at(3, 20), ElementsAre(24, 8, 0));        // 3, 6, 12, 24
  EXPECT_THAT(ends_at(30, 20), ElementsAre(30, 1, 0));       // no round at all
  EXPECT_THAT(ends_at(19, 20), ElementsAre(38, 2, 0));       // one
  EXPECT_THAT(ends_at(1, 33), ElementsAre(64, 64, 0));       // as many as there can be, and it would stop
  EXPECT_THAT(ends_at(1, 100), ElementsAre(IsNan(), 0, 0));  // it would go on
}

TEST(ControlFlow, ALoopMayBeToldToStopAtItsBound) {
  const std::string text = absl::StrCat(kWhile, NumbersCalled({"x", "limit"}), R"(
    layer { name: "l" input: "x" input: "limit" loop { body: "double" times: 6 condition: "go" stop_at_bound: true
      carry { input: "x" output: "y" } } }
    objective: "l")");
  auto found = RunBothWays(text, {{"x", {1}}, {"limit", {100}}}, {"l", "d(x)"}, InDouble({"x"}));
  EXPECT_THAT(found["l"], ElementsAre(64));
  EXPECT_THAT(found["d(x)"], ElementsAre(64));
}

// Training says that a loop went on beyond its bound: its loss is not finite, and nothing changes.
TEST(ControlFlow, TrainingStopsWhereALoopWouldGoOn) {
  const std::string text = absl::StrCat(kWhile, R"(
    input { name: "limit" no_batch: true }
    layer { name: "x" parameter { dim: [] init { kind: CONSTANT value: 1 } } }
    layer { name: "l" input: "x" input: "limit" loop { body: "double" times: 3 condition: "go"
      carry { input: "x" output: "y" } } }
    objective: "l")");
  auto session = MakeSession(text, InDouble());
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Feed("limit", {100}).ok());
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(*(*session)->Fetch("l"), ElementsAre(IsNan()));
  EXPECT_THAT(*(*session)->GetVariable("x"), ElementsAre(1));
  ASSERT_TRUE((*session)->Feed("limit", {4}).ok());
  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(*(*session)->Fetch("l"), ElementsAre(4));
  EXPECT_LT((*(*session)->GetVariable("x"))[0], 1);
}

TEST(ControlFlow, EveryRoundDrawsNumbersOfItsOwn) {
  const std::string text = R"(
    block { name: "drop" input: "x" layer { name: "d" input: "$x" dropout { rate: 0.5 } } output: "d" output: "$x" }
    input { name: "x" shape { dim: 64 } }
    layer { name: "l" input: "x" loop { body: "drop" times: 2 carry { input: "x" output: "x" } collect { output: "d" } } }
    layer { name: "loss" input: "l:1" reduce_sum {} }
    objective: "loss" output: "l:1")";
  auto found = RunBothWays(text, {{"x", Numbers(64, 1)}}, {"l:1"}, InDouble());
  const Numbers first(found["l:1"].begin(), found["l:1"].begin() + 64);
  const Numbers second(found["l:1"].begin() + 64, found["l:1"].end());
  EXPECT_NE(first, second);
}

// The same loop under every memory strategy and in several streams is the same, bit for bit.
TEST(ControlFlow, EveryStrategyAndStreamGivesTheSameBits) {
  const std::string text = absl::StrCat(kSwap, "\n");
  const auto run = [&](const std::string& strategy, int streams) {
    CompileOptions options{.fetch = {"l:2"}, .gradients = {"s", "l.fc.weight"}};
    options.memory.strategy = strategy;
    options.memory.planner = PlannerFor(strategy);
    options.memory.streams = streams;
    auto session = MakeSession(text, options);
    EXPECT_TRUE(session.ok()) << strategy << ": " << session.status().message();
    std::vector<Numbers> found;
    if (!session.ok()) return found;
    found.push_back(Losses(**session, 3));
    for (const char* name : {"l:2", "d(s)", "d(l.fc.weight)"}) found.push_back(*(*session)->Fetch(name));
    return found;
  };
  const std::vector<Numbers> truth = run("none", 1);
  for (const std::string& strategy : StrategiesAndDynamic()) {
    EXPECT_EQ(run(strategy, 1), truth) << strategy;
    EXPECT_EQ(run(strategy, 2), truth) << strategy << " in two streams";
  }
}

TEST(ControlFlow, DumpsShowBodiesIndented) {
  const absl::StatusOr<Graph> graph =
      GraphAfter(absl::StrCat(kTimes, NumbersCalled({"a", "b"}), kNested), "10_graph", InDouble());
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_THAT(ToText(*graph), HasSubstr("\n  graph \"outer\"\n  input x float64[]\n"));
  EXPECT_THAT(ToText(*graph), HasSubstr("\n    graph \"times\"\n    input x float64[]\n"));
}

}  // namespace
}  // namespace snug::core::test
