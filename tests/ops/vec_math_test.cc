// Compares the float functions of vec_math.h with the standard library's in double, over all floats (every 509th, and
// the special ones), compiled as kernels compile them.
#include "ops/kit/vec_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/kit/isa.h"

namespace snug::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Returns |found - expected| in units of the last place of the float nearest to `expected`.
double UlpError(float found, double expected) {
  const float nearest = static_cast<float>(expected);
  if (std::isnan(nearest)) return std::isnan(found) ? 0 : kInfinity;
  if (found == nearest) return std::signbit(found) == std::signbit(nearest) ? 0 : kInfinity;
  if (std::isinf(nearest) || !std::isfinite(found)) return kInfinity;
  const int exponent = std::max(std::ilogb(nearest == 0 ? std::numeric_limits<float>::min() : nearest), -126);
  return std::fabs(static_cast<double>(found) - expected) / std::exp2(exponent - 23);
}

std::vector<float> AllFloats() {
  std::vector<float> x = {0.0F, -0.0F, 1.0F, -1.0F, kInfinity, -kInfinity, kNan};
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 509) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return x;
}

template <class Function, class Oracle>
void ExpectWithin(double ulp, Function function, Oracle oracle) {
  const std::vector<float> x = AllFloats();
  std::vector<float> y(x.size());
  WithIsa([&]() SNUG_LAMBDA {
    for (size_t i = 0; i < x.size(); ++i) y[i] = function(x[i]);
  });
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = UlpError(y[i], oracle(static_cast<double>(x[i])));
    if (error > worst) {
      worst = error;
      where = i;
    }
  }
  EXPECT_LE(worst, ulp) << "at " << x[where] << ": " << y[where] << ", expected "
                        << oracle(static_cast<double>(x[where]));
}

TEST(VecMath, Exp) {
  ExpectWithin(
      1.1, [](float x) SNUG_LAMBDA { return Exp(x); }, [](double x) { return std::exp(x); });
}
TEST(VecMath, ExpOrZero) {
  const double least = std::exp2(-126.5), most = std::exp2(127.5);
  ExpectWithin(
      1.1, [](float x) SNUG_LAMBDA { return ExpOrZero(x); },
      [=](double x) {
        const double y = std::exp(x);
        return y < least ? 0.0 : y >= most ? static_cast<double>(kInfinity) : y;
      });
}
TEST(VecMath, Log) {
  ExpectWithin(
      1, [](float x) SNUG_LAMBDA { return Log(x); }, [](double x) { return std::log(x); });
}
TEST(VecMath, Sigmoid) {
  ExpectWithin(
      2.5, [](float x) SNUG_LAMBDA { return Sigmoid(x); }, [](double x) { return Sigmoid(x); });
}
TEST(VecMath, Tanh) {
  ExpectWithin(
      2, [](float x) SNUG_LAMBDA { return Tanh(x); }, [](double x) { return std::tanh(x); });
}
TEST(VecMath, Erf) {
  ExpectWithin(
      1.5, [](float x) SNUG_LAMBDA { return Erf(x); }, [](double x) { return std::erf(x); });
}

TEST(VecMath, Pow) {
  std::vector<float> special = {0.0F,        -0.0F,        0.5F,      -0.5F,      1.0F,  -1.0F,  2.0F,
                                -2.0F,       3.0F,         -3.0F,     1e-40F,     1e38F, -1e38F, 0x1p24F,
                                16777217.0F, -16777215.0F, kInfinity, -kInfinity, kNan};
  std::vector<float> a, b;
  for (const float x : special) {
    for (const float y : special) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  // Half of the pairs have bases near 1 with large exponents, the others are anything.
  uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525U + 1013904223U; };
  for (int i = 0; i < 1000000; ++i) {
    a.push_back(std::bit_cast<float>(next()));
    b.push_back(i % 2 == 0 ? std::bit_cast<float>(next()) : static_cast<float>(next() >> 8) * 0x1p-20F - 8.0F);
    if (i % 4 == 0) a.back() = 1.0F + static_cast<float>(next() >> 8) * 0x1p-30F;
  }
  std::vector<float> y(a.size());
  WithIsa([&]() SNUG_LAMBDA {
    for (size_t i = 0; i < a.size(); ++i) y[i] = Pow(a[i], b[i]);
  });
  for (size_t i = 0; i < a.size(); ++i) {
    const double expected = std::pow(static_cast<double>(a[i]), static_cast<double>(b[i]));
    ASSERT_LE(UlpError(y[i], expected), 1)
        << a[i] << " to the power " << b[i] << ": " << y[i] << ", expected " << expected;
  }
}

}  // namespace
}  // namespace snug::core
