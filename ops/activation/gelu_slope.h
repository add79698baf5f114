// The derivative of gelu by what gelu gave. y = gelu(x) falls to a minimum at x = -0.75 and rises from there, so y and
// one bit, whether x is left of the minimum, say which x it was. The derivative is found without x, by polynomials in
// what it is smooth in on each side: right of the minimum s = sqrt(y - minimum), left of it u = sqrt(-log(y /
// minimum)), as x goes with sqrt(-log(-y)) there. Chakrabarti and Moseley's Tempo (2022) does so by polynomials in y.
//
// Given an exact y the error in float is at most 1e-6 (tests/ops/gelu_slope_test.cc). That y is rounded costs more near
// the minimum, where y says little of x: about sqrt(ulp(y)), 1e-4 in float and 0.03 in bfloat16, of a derivative near
// 0. In double x is found by Newton's method, which is the oracle.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"
#include "ops/math/functions.h"

namespace snug::core {

// Gelu by the error function.
struct GeluByErf {
  using Function = functions::Gelu;
  using Derivative = functions::GeluGrad;
  static constexpr double kLeast = -0.16997120747990366169;    // gelu
  static constexpr double kLeastAt = -0.75179152469356445746;  // of this x
  // The derivative over s, right of the minimum, for s in [0, kNearTo]; the derivative, for s in [kNearTo, kFarTo]; and
  // the derivative over y u, left of it. Each in t, which is -1 and 1 at the ends. Fitted for the least largest error.
  static constexpr std::array<float, 13> kNear = {
      1.198912707e+00F,  -2.312451388e-01F, -4.053274500e-01F, 9.454457811e-02F, 2.590588409e-02F,
      2.922632186e-02F,  5.374736127e-03F,  3.077018393e-03F,  1.245138699e-03F, -2.332805145e-03F,
      -5.534715841e-03F, -1.728531561e-04F, 1.509383555e-03F};
  static constexpr std::array<float, 12> kFar = {
      1.001832773e+00F,  -1.065139212e-02F, 2.654844947e-02F, -3.497468490e-02F, 2.130101265e-02F,  4.857783550e-03F,
      -1.768481981e-02F, 8.206775969e-03F,  4.898862775e-03F, -4.820375323e-03F, -5.088116628e-04F, 9.948947196e-04F};
  static constexpr std::array<float, 10> kLeft = {
      1.513050854e+00F,  -1.485231060e-01F, 1.551342837e-01F,  -1.368254949e-01F, 1.252875676e-01F,
      -2.819620933e-02F, 4.730440994e-02F,  -1.893345610e-01F, -2.117678319e-01F, -1.213730425e-01F};
};

// Its approximation with tanh.
struct GeluByTanhForm {
  using Function = functions::GeluByTanh;
  using Derivative = functions::GeluByTanhGrad;
  static constexpr double kLeast = -0.17004075057125405064;
  static constexpr double kLeastAt = -0.75246142207101625849;
  static constexpr std::array<float, 13> kNear = {
      1.198662499e+00F,  -2.318272001e-01F, -4.055369858e-01F, 9.790277352e-02F, 2.717334010e-02F,
      2.802603213e-02F,  4.255476057e-03F,  1.864532177e-03F,  2.056235415e-04F, -1.920433922e-03F,
      -4.026675253e-03F, -6.773783258e-05F, 1.050237946e-03F};
  static constexpr std::array<float, 12> kFar = {
      1.001493946e+00F,  -9.819004551e-03F, 2.720977479e-02F, -3.876103552e-02F, 2.363371688e-02F,  8.885719634e-03F,
      -2.222721874e-02F, 6.409410157e-03F,  8.072126542e-03F, -4.569539297e-03F, -1.361359181e-03F, 1.033355176e-03F};
  static constexpr std::array<float, 10> kLeft = {
      1.633493909e+00F, 1.603560976e-01F,  2.863238226e-01F,  -2.751312995e-01F, 1.534959036e-01F,
      8.812589625e-02F, -7.897597419e-02F, -3.467094835e-01F, -2.154571613e-01F, -9.769493628e-02F};
};

namespace internal {

inline constexpr float kNearTo = 1.5F;
inline constexpr float kFarTo = 2.4F;   // the derivative is 1 from there on, to 4e-7
inline constexpr float kLeftTo = 4.2F;  // and 0, to 3e-8

// From the i-th coefficient on. Each is a constant of its own: loops that load them are not vectorised.
template <const auto& kCoefficients, size_t i = 0>
SNUG_INLINE float Polynomial(float t) {
  constexpr float kOwn = kCoefficients[i];
  if constexpr (i + 1 == kCoefficients.size()) {
    return kOwn;
  } else {
    return Polynomial<kCoefficients, i + 1>(t) * t + kOwn;
  }
}

}  // namespace internal

// Returns gelu'(x), where y is gelu(x) and x is left of the minimum if `left`. NaN gives NaN.
template <class Form>
SNUG_INLINE float GeluSlope(float y, bool left) {
  using internal::Polynomial;
  using internal::Select;
  constexpr auto kHigh = static_cast<float>(Form::kLeast);
  constexpr auto kLow = static_cast<float>(Form::kLeast - static_cast<double>(kHigh));
  constexpr auto kInverse = static_cast<float>(1 / Form::kLeast);
  const float above = (y - kHigh) - kLow;
  const float s = std::sqrt(above < 0.0F ? 0.0F : above);  // y may be rounded to below the minimum
  const float near = s * Polynomial<Form::kNear>(s * (2 / internal::kNearTo) - 1.0F);
  constexpr float kMiddle = (internal::kNearTo + internal::kFarTo) / 2;
  constexpr float kHalf = (internal::kFarTo - internal::kNearTo) / 2;
  const float far = Polynomial<Form::kFar>((s - kMiddle) * (1 / kHalf));
  const float right_slope = Select(s > internal::kFarTo, 1.0F, Select(s > internal::kNearTo, far, near));

  const float ratio = y * kInverse;
  constexpr float kLeastRatio = 0x1p-30F;  // u is beyond kLeftTo
  const float between = ratio > 1.0F ? 1.0F : ratio;
  // Of what Log does with other numbers the compiler would make branches in so long a loop.
  const float u = std::sqrt(-internal::LogOfNormal(between < kLeastRatio ? kLeastRatio : between, /*scale=*/0));
  const float left_slope = y * u * Polynomial<Form::kLeft>(u * (2 / internal::kLeftTo) - 1.0F);
  // Where u is NaN because y is not, as right of the minimum, the other side is taken.
  return Select(left, Select(u > internal::kLeftTo, 0.0F, left_slope), right_slope);
}

template <class Form>
double GeluSlope(double y, bool left) {
  const typename Form::Function gelu;
  const typename Form::Derivative derivative;
  if (y != y) return y;
  if (left && y >= 0) return 0;  // so far left that nothing is left of it
  // x lies between these; each step halves the rest at least.
  double low = left ? -40 : Form::kLeastAt;
  double high = left ? Form::kLeastAt : std::fmax(y, 0) + 1;
  double x = left ? -1.5 : std::fmax(y, 0.0);
  for (int i = 0; i < 200; ++i) {
    const double difference = gelu(x) - y;
    const double slope = derivative(x, 1.0);
    ((difference > 0) != left ? high : low) = x;
    double next = x - difference / slope;
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (next == x) break;
    x = next;
  }
  return derivative(x, 1.0);
}

}  // namespace snug::core
