// Functions for vector loops: branch-free float versions, which the compiler turns into vector code inside WithIsa, and
// double versions, which call the standard library (the oracle). Special values are as in C: infinities, NaN, signed
// zeros, subnormal numbers. The largest errors, over all floats, are stated here and tested in
// tests/ops/vec_math_test.cc.
//
// The polynomials are from Cephes (Moshier) for exp, log and tanh, and Juffa's for erf.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/kit/isa.h"

namespace snug::core {

namespace internal {
// Adding this rounds a float (a double) of moderate size to an integer, which is then in the low bits.
inline constexpr float kRound = 0x1.8p23F;
inline constexpr double kRoundDouble = 0x1.8p52;

// Returns condition ? a : b by masks. The compiler likes to turn selects that follow each other into branches, and then
// it does not vectorise the loop.
SNUG_INLINE float Select(bool condition, float a, float b) {
  const auto mask = -static_cast<int32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<int32_t>(a) & mask) | (std::bit_cast<int32_t>(b) & ~mask));
}
SNUG_INLINE double Select(bool condition, double a, double b) {
  const auto mask = -static_cast<int64_t>(condition);
  return std::bit_cast<double>((std::bit_cast<int64_t>(a) & mask) | (std::bit_cast<int64_t>(b) & ~mask));
}

// Returns a - b on the bits of numbers that may be anything (NaN, negative), so it wraps around.
SNUG_INLINE int32_t Wrap(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}

// Returns p * 2^n for n in [-254, 254]. It takes two steps, so that the result may be subnormal or infinite.
SNUG_INLINE float ScaleByPowerOfTwo(float p, int32_t n) {
  const int32_t half = n >> 1;
  return p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((n - half + 127) << 23);
}

// Returns e^r for a small r: half of the logarithm of 2 at most.
SNUG_INLINE float ExpOfRest(float r) {
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  return p * r * r + r + 1.0F;
}

// Returns x less so many logarithms of 2, each of which is taken away in two parts, so that nothing is lost.
SNUG_INLINE float RestOfPower(float x, float whole) { return (x - whole * 0.693359375F) - whole * -2.12194440e-4F; }
}  // namespace internal

// The error is at most 1.1 ulp.
SNUG_INLINE float Exp(float x) {
  float y = x < -104.0F ? -104.0F : x;
  y = y > 89.0F ? 89.0F : y;
  const float shifted = y * 1.44269504F + internal::kRound;
  const int32_t n = internal::Wrap(std::bit_cast<int32_t>(shifted), std::bit_cast<int32_t>(internal::kRound));
  const float p = internal::ExpOfRest(internal::RestOfPower(y, shifted - internal::kRound));
  // A NaN came through to p; n is then arbitrary.
  return internal::ScaleByPowerOfTwo(p, x == x ? n : 0);
}

// The same in half of the instructions, but results below 2^-126.5 become 0, as arithmetic on subnormal numbers is
// slow, and those from 2^127.5 on infinite.
SNUG_INLINE float ExpOrZero(float x) {
  constexpr float kBiased = internal::kRound + 127;  // so that the low bits are an exponent's, from 0's to infinity's
  float y = x < -88.0F ? -88.0F : x;
  y = y > 89.0F ? 89.0F : y;
  const float shifted = y * 1.44269504F + kBiased;
  const float p = internal::ExpOfRest(internal::RestOfPower(y, shifted - kBiased));
  // A NaN came through to p, and stays one whatever it is multiplied by.
  return p * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
}

namespace internal {

// Returns log(x / 2^scale) of a positive normal number; of others it is some number.
SNUG_INLINE float LogOfNormal(float x, int32_t scale) {
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t e = Wrap(bits, 0x3f3504f3) >> 23;  // so that the rest lies in [sqrt(1/2), sqrt(2))
  const float f = std::bit_cast<float>(Wrap(bits, e << 23)) - 1.0F;
  const float n = static_cast<float>(e - scale);
  float p = 7.0376836292e-2F;
  p = p * f - 1.1514610310e-1F;
  p = p * f + 1.1676998740e-1F;
  p = p * f - 1.2420140846e-1F;
  p = p * f + 1.4249322787e-1F;
  p = p * f - 1.6668057665e-1F;
  p = p * f + 2.0000714765e-1F;
  p = p * f - 2.4999993993e-1F;
  p = p * f + 3.3333331174e-1F;
  const float square = f * f;
  const float low = p * f * square + n * -2.12194440e-4F - 0.5F * square;
  return (f + low) + n * 0.693359375F;
}

}  // namespace internal

// The error is at most 1 ulp.
SNUG_INLINE float Log(float x) {
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float y = internal::LogOfNormal(subnormal ? x * 0x1p23F : x, subnormal ? 23 : 0);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special = x == 0.0F ? -kInfinity : x == kInfinity ? x : std::numeric_limits<float>::quiet_NaN();
  return x > 0.0F && x < kInfinity ? y : special;
}

// The error is at most 2.5 ulp.
SNUG_INLINE float Sigmoid(float x) {
  const float e = Exp(-std::fabs(x));
  return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

// The error is at most 2 ulp.
SNUG_INLINE float Tanh(float x) {
  const float size = std::fabs(x);
  const float square = x * x;
  float p = -5.70498872745e-3F;
  p = p * square + 2.06390887954e-2F;
  p = p * square - 5.37397155531e-2F;
  p = p * square + 1.33314422036e-1F;
  p = p * square - 3.33332819422e-1F;
  const float small = p * square * x + x;
  const float large = 1.0F - 2.0F / (ExpOrZero(2.0F * size) + 1.0F);
  return std::copysign(size < 0.625F ? small : large, x);
}

// The error is at most 1.5 ulp.
SNUG_INLINE float Erf(float x) {
  const float t = std::fabs(x);
  const float s = x * x;
  float p = -1.72853470e-5F * t + 3.83197126e-4F;
  const float q = -3.88396438e-3F * t + 2.42546219e-2F;
  p = p * s + q;
  p = p * t - 1.06777877e-1F;
  p = p * t - 6.34846687e-1F;
  p = p * t - 1.28717512e-1F;
  const float large = 1.0F - ExpOrZero(p * t - t);
  float r = -5.96761703e-4F;
  r = r * s + 4.99119423e-3F;
  r = r * s - 2.67681349e-2F;
  r = r * s + 1.12819925e-1F;
  r = r * s - 3.76125336e-1F;
  r = r * s + 1.28379166e-1F;
  const float small = r * x + x;
  return t > 0.927734375F ? std::copysign(large, x) : small;
}

// The error is at most 1 ulp, because the logarithm and its factor are kept in double.
SNUG_INLINE float Pow(float a, float b) {
  using internal::Select;
  const float size = std::fabs(a);
  const bool subnormal = size < std::numeric_limits<float>::min();
  const int32_t bits = std::bit_cast<int32_t>(subnormal ? size * 0x1p23F : size);
  const int32_t e = internal::Wrap(bits, 0x3f3504f3) >> 23;
  const double m = static_cast<double>(std::bit_cast<float>(bits - (e << 23)));
  const double n = static_cast<double>(subnormal ? e - 23 : e);
  const double s = (m - 1.0) / (m + 1.0);  // log m = 2 (s + s^3 / 3 + s^5 / 5 + ...), |s| < 0.172
  const double z = s * s;
  double p = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  const double log = n * 0.693147180559945309417 + 2.0 * (s + s * z * p);

  const double t = static_cast<double>(b) * log;
  const double clamped = Select(t < 89.0, Select(t > -104.0, t, -104.0), 89.0);
  const double whole = (clamped * 1.44269504088896340736 + internal::kRoundDouble) - internal::kRoundDouble;
  const double r = clamped - whole * 0.693147180559945309417;
  double y = 1.0 / 40320;
  y = y * r + 1.0 / 5040;
  y = y * r + 1.0 / 720;
  y = y * r + 1.0 / 120;
  y = y * r + 1.0 / 24;
  y = y * r + 1.0 / 6;
  y = y * r + 0.5;
  y = y * r + 1.0;
  y = y * r + 1.0;
  float power = internal::ScaleByPowerOfTwo(static_cast<float>(y), static_cast<int32_t>(whole));

  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float exponent = std::fabs(b);
  // This is the result where the size is 0 or infinite, or the exponent is infinite.
  const float limit = Select(size == 1.0F, 1.0F, Select((size > 1.0F) == (b > 0.0F), kInfinity, 0.0F));
  power = Select(size == 0.0F, limit, power);
  power = Select(size == kInfinity, limit, power);
  power = Select(exponent == kInfinity, limit, power);
  // Powers of negative numbers exist for whole exponents only; odd ones keep the sign. Floats from 2^24 on are even.
  const float moderate = Select(exponent < 0x1p24F, b, 0.0F);  // NaN becomes 0 too
  const auto truncated = static_cast<int32_t>(moderate);
  const bool whole_exponent = moderate == static_cast<float>(truncated);
  const float odd = Select(whole_exponent, static_cast<float>(truncated & 1), 0.0F);
  power = Select(odd == 1.0F, std::copysign(power, a), power);
  power = Select(Select(size == kInfinity, 1.0F, a) < 0.0F, Select(whole_exponent, power, kNan), power);
  power = Select(a == a, power, kNan);
  power = Select(b == b, power, kNan);
  power = Select(b == 0.0F, 1.0F, power);
  return Select(a == 1.0F, 1.0F, power);
}

SNUG_HOST_DEVICE inline double Exp(double x) { return std::exp(x); }
SNUG_HOST_DEVICE inline double ExpOrZero(double x) { return std::exp(x); }
SNUG_HOST_DEVICE inline double Log(double x) { return std::log(x); }
SNUG_HOST_DEVICE inline double Sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
SNUG_HOST_DEVICE inline double Tanh(double x) { return std::tanh(x); }
SNUG_HOST_DEVICE inline double Erf(double x) { return std::erf(x); }
SNUG_HOST_DEVICE inline double Pow(double a, double b) { return std::pow(a, b); }

}  // namespace snug::core
