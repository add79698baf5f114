// The gradients that NNC's own tests ask for, where no loop or branch of the graph is needed, in double precision
// beside their formulas: slices of one value, log(x y) five times over, a function in pieces.
#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

using Passes = std::set<std::string>;

std::unique_ptr<Session> MakeDouble(const std::string& text, std::vector<std::string> gradients, Passes disabled = {}) {
  auto session = MakeSession(
      text, {.precision = DType::kFloat64, .disabled_passes = std::move(disabled), .gradients = std::move(gradients)});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *std::move(session) : nullptr;
}

struct Part {
  int begin, end;
};

// x is cut into parts, each of which is multiplied by weights of its own; the gradient of x is the sum of the weights
// where the parts lie, and 0 elsewhere.
void ExpectGradientOfSlices(const std::vector<Part>& parts, int size) {
  std::string text = absl::StrCat("input { name: \"x\" shape { dim: ", size, " } }\n");
  std::string objectives;
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::SubstituteAndAppend(&text, R"(
      input { name: "w$0" shape { dim: $1 } }
      layer { name: "part$0" input: "x" slice { axis: 1 begin: $2 end: $3 } }
      layer { name: "y$0" input: "part$0" input: "w$0" mul {} })",
                              i, parts[i].end - parts[i].begin, parts[i].begin, parts[i].end);
    absl::SubstituteAndAppend(&objectives, "objective: \"y$0\"\n", i);
  }
  for (const bool join : {true, false}) {
    const auto session = MakeDouble(text + objectives, {"x"}, join ? Passes() : Passes{"join_slices"});
    ASSERT_NE(session, nullptr);
    std::mt19937 random(1);
    std::vector<double> expected(static_cast<size_t>(size), 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      std::vector<double> weights;
      for (int at = parts[i].begin; at < parts[i].end; ++at) {
        weights.push_back(static_cast<double>(random() % 1000) / 8);  // sums of these are exact
        expected[static_cast<size_t>(at)] += weights.back();
      }
      ASSERT_TRUE(session->Feed(absl::StrCat("w", i), weights).ok());
    }
    ASSERT_TRUE(session->Run().ok());
    EXPECT_EQ(*session->Fetch("d(x)"), expected) << (join ? "joined" : "padded");
  }
}

TEST(GradientCases, TwoSlicesThatCoverAnInput) { ExpectGradientOfSlices({{0, 3}, {3, 7}}, 7); }
TEST(GradientCases, TwoSlicesThatLeaveAGap) { ExpectGradientOfSlices({{1, 3}, {4, 6}}, 7); }
TEST(GradientCases, TwoSlicesThatOverlap) { ExpectGradientOfSlices({{0, 5}, {3, 7}}, 7); }
TEST(GradientCases, TwoSlicesThatAreOne) { ExpectGradientOfSlices({{2, 5}, {2, 5}}, 7); }

TEST(GradientCases, AnyNumberOfSlicesInAnySequence) {
  std::mt19937 random(2);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<uint32_t>(limit)); };
  for (int i = 0; i < 30; ++i) {
    const int size = 1 + below(9);
    std::vector<Part> parts(static_cast<size_t>(1 + below(5)));
    for (Part& part : parts) {
      part.begin = below(size);
      part.end = part.begin + 1 + below(size - part.begin);
    }
    SCOPED_TRACE(i);
    ExpectGradientOfSlices(parts, size);
  }
}

// Slices of images, two of which overlap and one is a single row, along each axis; with a convolution behind them,
// before which kernels want another layout.
TEST(GradientCases, SlicesOfImagesAlongEveryAxis) {
  for (int axis = 0; axis < 4; ++axis) {
    std::string text = "batch: 6 input { name: \"x\" shape { dim: [6, 6, 6] } }\n";
    const Part parts[] = {{0, 4}, {2, 5}, {3, 4}};
    for (int i = 0; i < 3; ++i) {
      absl::SubstituteAndAppend(&text, R"(
        layer { name: "part$0" input: "x" slice { axis: $1 begin: $2 end: $3 } }
        layer { name: "y$0" input: "part$0" conv { filters: 2 kernel: 1 } }
        layer { name: "z$0" input: "y$0" square {} }
        layer { name: "s$0" input: "z$0" reduce_sum {} }
        objective: "s$0")",
                                i, axis, parts[i].begin, parts[i].end);
    }
    const auto joined = MakeDouble(text, {"x"});
    const auto padded = MakeDouble(text, {"x"}, {"join_slices"});
    ASSERT_TRUE(joined != nullptr && padded != nullptr);
    ASSERT_TRUE(joined->Run().ok() && padded->Run().ok());
    EXPECT_EQ(*joined->Fetch("d(x)"), *padded->Fetch("d(x)")) << "axis " << axis;
  }
}

// y_0 = y, y_i = log(x y_{i-1}).
TEST(GradientCases, LogOfAProductFiveTimes) {
  constexpr int kTimes = 5;
  std::string text = R"(
    input { name: "x" shape { dim: 3 } }
    input { name: "y0" shape { dim: 3 } })";
  for (int i = 1; i <= kTimes; ++i) {
    absl::SubstituteAndAppend(&text, R"(
      layer { name: "p$0" input: "x" input: "y$1" mul {} }
      layer { name: "y$0" input: "p$0" log {} })",
                              i, i - 1);
  }
  const auto session = MakeDouble(absl::StrCat(text, "\nobjective: \"y", kTimes, "\""), {"x", "y0"});
  ASSERT_NE(session, nullptr);
  const std::vector<double> x = {7, 3.5, 20}, y = {2, 5, 0.7};
  ASSERT_TRUE(session->Feed("x", x).ok());
  ASSERT_TRUE(session->Feed("y0", y).ok());
  ASSERT_TRUE(session->Run().ok());
  std::vector<double> value = y, by_x(3, 0), by_y(3, 1);
  for (int i = 0; i < kTimes; ++i) {  // forward: d(log(x v)) = dx / x + dv / v
    for (size_t k = 0; k < 3; ++k) {
      by_x[k] = 1 / x[k] + by_x[k] / value[k];
      by_y[k] = by_y[k] / value[k];
      value[k] = std::log(x[k] * value[k]);
    }
  }
  EXPECT_THAT(*session->Fetch(absl::StrCat("y", kTimes)), Pointwise(DoubleNear(1e-14), value));
  EXPECT_THAT(*session->Fetch("d(x)"), Pointwise(DoubleNear(1e-14), by_x));
  EXPECT_THAT(*session->Fetch("d(y0)"), Pointwise(DoubleNear(1e-14), by_y));
}

// f(x) = -1 below -2, x + 1 up to 0, 1 - 3 x up to 2, -5 above: every piece at once, one value in each. (A branch of
// the graph, of which only one runs, would be another matter.)
TEST(GradientCases, EveryPieceOfAPiecewiseFunction) {
  const auto session = MakeDouble(R"(
    input { name: "x" shape { dim: 6 } }
    layer { name: "up"   input: "x"  clip { min: -2 max: 0 } }
    layer { name: "up1"  input: "up" scale { offset: 1 } }
    layer { name: "down" input: "x"  clip { min: 0 max: 2 } }
    layer { name: "fall" input: "down" scale { factor: -3 } }
    layer { name: "f"    input: "up1" input: "fall" add {} }
    objective: "f"
  )",
                                  {"x"});
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->Feed("x", {-5, -1.5, -0.25, 0.5, 1.75, 4}).ok());
  ASSERT_TRUE(session->Run().ok());
  EXPECT_EQ(*session->Fetch("f"), (std::vector<double>{-1, -0.5, 0.75, -0.5, -4.25, -5}));
  EXPECT_EQ(*session->Fetch("d(x)"), (std::vector<double>{0, 1, 1, -3, -3, 0}));
}

}  // namespace
}  // namespace snug::core
