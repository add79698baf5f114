// Compares gelu's derivative from its output with the one from its input in double, over all floats (every 509th);
// and looks at gelu far from 0, where what it is made of has no end.
#include "ops/activation/gelu_slope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/bfloat16.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

struct Worst {
  double error = 0, at = 0;
  void Add(double e, double x) {
    if (!(e <= error)) {
      error = e;
      at = x;
    }
  }
};

std::vector<float> Slopes(const std::vector<float>& y, const std::vector<uint8_t>& left, bool tanh) {
  std::vector<float> slopes(y.size());
  WithIsa([&]() SNUG_LAMBDA {
    for (size_t i = 0; i < y.size(); ++i) {
      slopes[i] = tanh ? GeluSlope<GeluByTanhForm>(y[i], left[i] != 0) : GeluSlope<GeluByErf>(y[i], left[i] != 0);
    }
  });
  return slopes;
}

// y is that of the float x, rounded by `round`. `exact`: the derivative is that which belongs to the rounded y, as far
// as double tells it; else it is that of x.
template <class Form, class Round>
void Compare(bool exact, double near, double elsewhere, Round round) {
  const typename Form::Function gelu;
  const typename Form::Derivative derivative;
  std::vector<double> xs;
  std::vector<float> y;
  std::vector<uint8_t> left;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 509) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!(std::fabs(x) < 1e30F)) continue;
    xs.push_back(static_cast<double>(x));
    y.push_back(round(static_cast<float>(gelu(static_cast<double>(x)))));
    left.push_back(static_cast<double>(x) < Form::kLeastAt ? 1 : 0);
  }
  const std::vector<float> slopes = Slopes(y, left, std::is_same_v<Form, GeluByTanhForm>);
  Worst at_minimum, besides;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double expected = exact ? GeluSlope<Form>(static_cast<double>(y[i]), left[i] != 0) : derivative(xs[i], 1.0);
    const double error = std::fabs(static_cast<double>(slopes[i]) - expected);
    (std::fabs(xs[i] - Form::kLeastAt) < 0.1 ? at_minimum : besides).Add(error, xs[i]);
  }
  EXPECT_LE(at_minimum.error, near) << "at " << at_minimum.at;
  EXPECT_LE(besides.error, elsewhere) << "at " << besides.at;
  EXPECT_GT(xs.size(), 4000000u);
}

TEST(GeluSlope, OfAnExactOutputIsWithinAMillionth) {
  const auto as_it_is = [](float y) { return y; };
  Compare<GeluByErf>(/*exact=*/true, 1e-4, 1e-6, as_it_is);
  Compare<GeluByTanhForm>(/*exact=*/true, 1e-4, 1e-6, as_it_is);
}

TEST(GeluSlope, OfARoundedOutputIsThatOfTheInputButForTheMinimum) {
  const auto as_it_is = [](float y) { return y; };
  Compare<GeluByErf>(/*exact=*/false, 1.5e-4, 1e-6, as_it_is);
  Compare<GeluByTanhForm>(/*exact=*/false, 1.5e-4, 1e-6, as_it_is);
  const auto to_bfloat16 = [](float y) { return static_cast<float>(BFloat16(y)); };
  Compare<GeluByErf>(/*exact=*/false, 0.03, 0.006, to_bfloat16);
  Compare<GeluByTanhForm>(/*exact=*/false, 0.03, 0.006, to_bfloat16);
}

TEST(GeluSlope, InDoubleFindsTheInput) {
  for (double x = -30; x < 30; x += 0.01) {
    if (std::fabs(x - GeluByErf::kLeastAt) < 0.005) continue;
    const double found = GeluSlope<GeluByErf>(functions::Gelu()(x), x < GeluByErf::kLeastAt);
    EXPECT_NEAR(found, functions::GeluGrad()(x, 1.0), 1e-12) << x;
  }
}

template <class T>
void CheckFarOut() {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const functions::GeluByTanhGrad gradient;
  for (const T x : {T(20), T(1e10), T(1e30), std::numeric_limits<T>::max(), kInfinity}) {
    EXPECT_EQ(gradient(x, T(1)), T(1)) << x;
    EXPECT_NEAR(gradient(-x, T(1)), T(0), T(1e-30)) << -x;
  }
  for (const T x : {T(20), T(1e10), T(1e30), std::numeric_limits<T>::max()}) {
    EXPECT_EQ(functions::GeluByTanh()(x), x) << x;
    EXPECT_NEAR(functions::GeluByTanh()(-x), T(0), T(1e-30)) << -x;
  }
  EXPECT_TRUE(std::isnan(gradient(std::numeric_limits<T>::quiet_NaN(), T(1))));
}

// The slope to the left is small, and close to nothing where it ends: what counts there is its sign and its digits.
TEST(GeluByTanh, SlopeKeepsItsSignAndDigitsToTheLeft) {
  const functions::GeluByTanhGrad gradient;
  double worst = 0;
  for (double x = -10; x < -2; x += 0.003) {
    const float at = static_cast<float>(x);
    const double expected = gradient(static_cast<double>(at), 1.0);
    const double found = static_cast<double>(gradient(at, 1.0F));
    ASSERT_LT(expected, 0) << x;
    ASSERT_LT(found, 0) << x;
    worst = std::fmax(worst, std::fabs(found / expected - 1));
  }
  EXPECT_LT(worst, 2e-5);
}

TEST(GeluByTanh, IsFiniteFarOut) {
  CheckFarOut<float>();
  CheckFarOut<double>();
}

TEST(GeluSlope, OfSpecialOutputs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = {infinity, 1e30F, 0, 0, -0.0F, -1e-30F, nan, nan, -0.18F, -0.18F};
  const std::vector<uint8_t> left = {0, 0, 0, 1, 1, 1, 0, 1, 0, 1};
  const std::vector<float> slopes = Slopes(y, left, false);
  EXPECT_EQ(slopes[0], 1);
  EXPECT_EQ(slopes[1], 1);
  EXPECT_NEAR(slopes[2], 0.5, 1e-6);
  for (const size_t i : {3, 4, 5, 8, 9}) EXPECT_NEAR(slopes[i], 0, 1e-6) << i;
  EXPECT_TRUE(std::isnan(slopes[6]));
  EXPECT_TRUE(std::isnan(slopes[7]));
}

}  // namespace
}  // namespace snug::core
