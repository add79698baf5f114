// The transforms of Winograd's filtering (winograd.h), one axis at a time, for anything that adds and multiplies.
//
// A product of polynomials is known by its values at as many points as it has coefficients. The points are 0, a, -a, b
// and -b, in this sequence, and where results have three taps or more infinity, which stands for the highest
// coefficient.
// m results of t taps have m + t - 1 points: fewer than four, at an edge, do without the last ones of these five. Tiles
// of more than three taps always have all points.
// Filters are transformed for all points in any case, divided by what four results want, and data make up for it.
//
// Loops over taps, points, sums and results are unrolled by pragmas: where the compiler leaves them as loops, as it
// does for AVX2, their vectors go through memory.
#pragma once

#include <cstdint>

#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

inline constexpr float kA = 0.625F, kB = 1.5F;
inline constexpr float kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;
inline constexpr float kA4 = kA2 * kA2, kB4 = kB2 * kB2;
inline constexpr float kG0 = 1 / (kA2 * kB2);
inline constexpr float kGA = 1 / (2 * kA2 * (kA2 - kB2));
inline constexpr float kGB = 1 / (2 * kB2 * (kB2 - kA2));

inline constexpr int64_t kOut = 4;     // results of a tile along an axis, at most
inline constexpr int64_t kFinite = 5;  // points that are numbers

// Whether tiles of `m` results along an axis have the finite point `number`.
SNUG_INLINE bool HasPoint(int64_t m, int64_t number) { return number <= m; }

// Sets the values at the finite points that `m` results have, of m + 1 data.
template <class V>
SNUG_INLINE void TransformData(int64_t m, const V* d, V* v) {
  if (m == 4) {
    const V even_a = d[4] - d[2] * kB2, odd_a = (d[3] - d[1] * kB2) * kA;
    const V even_b = d[4] - d[2] * kA2, odd_b = (d[3] - d[1] * kA2) * kB;
    v[0] = d[0] * (kA2 * kB2) - d[2] * (kA2 + kB2) + d[4];
    v[1] = even_a + odd_a;
    v[2] = even_a - odd_a;
    v[3] = even_b + odd_b;
    v[4] = even_b - odd_b;
  } else if (m == 3) {
    const V e0 = d[1] - d[0] * kB, e1 = (d[2] - d[1] * kB) * kA, e2 = d[3] - d[2] * kB;
    v[0] = (e2 - e0 * kA2) * kB;
    v[1] = (e2 + e1) * (kB + kA);
    v[2] = (e2 - e1) * (kB - kA);
    v[3] = (d[3] - d[1] * kA2) * (2 * kB);
  } else if (m == 2) {
    v[0] = d[0] * (kA2 * kB2) - d[2] * kB2;
    v[1] = (d[2] + d[1] * kA) * (kA2 - kB2);
    v[2] = (d[2] - d[1] * kA) * (kA2 - kB2);
  } else {
    v[0] = (d[0] * kA - d[1]) * (kA * kB2);
    v[1] = d[1] * (2 * kA * (kA2 - kB2));
  }
}

// Returns the value at infinity, of m + 2 data.
template <class V>
SNUG_INLINE V TransformDataAtInfinity(int64_t m, const V* d) {
  if (m == 4) return d[1] * (kA2 * kB2) - d[3] * (kA2 + kB2) + d[5];
  if (m == 3) return (d[4] - d[3] * kB) - (d[2] - d[1] * kB) * kA2;
  if (m == 2) return d[3] - d[1] * kA2;
  return d[2] - d[1] * kA;
}

// Sets the values of g0 + g1 z + g2 z^2 at the finite points; of more taps with g3 z^3, and with g4 z^4.
template <int64_t kTaps, class V>
SNUG_INLINE void TransformFilter(const V* g, V* v) {
  static_assert(kTaps >= 3 && kTaps <= 5);
  V even_a = g[0] + g[2] * kA2, even_b = g[0] + g[2] * kB2;
  V odd_a = g[1], odd_b = g[1];
  if constexpr (kTaps > 3) {
    odd_a += g[3] * kA2;
    odd_b += g[3] * kB2;
  }
  if constexpr (kTaps > 4) {
    even_a += g[4] * kA4;
    even_b += g[4] * kB4;
  }
  even_a *= kGA;
  even_b *= kGB;
  odd_a *= kA * kGA;
  odd_b *= kB * kGB;
  v[0] = g[0] * kG0;
  v[1] = even_a + odd_a;
  v[2] = even_a - odd_a;
  v[3] = even_b + odd_b;
  v[4] = even_b - odd_b;
}

// Sets results from sums at the finite points. Those that fewer than kOut results do not have are zero.
template <class V>
SNUG_INLINE void TransformSums(const V* s, V* y) {
  const V sum_a = s[1] + s[2], difference_a = s[1] - s[2];
  const V sum_b = s[3] + s[4], difference_b = s[3] - s[4];
  y[0] = s[0] + sum_a + sum_b;
  y[1] = difference_a * kA + difference_b * kB;
  y[2] = sum_a * kA2 + sum_b * kB2;
  y[3] = difference_a * kA3 + difference_b * kB3;
}

// The gradients of these. `y` has zeros where fewer than kOut results end.
template <class V>
SNUG_INLINE void TransformSumsGrad(const V* y, V* s) {
  const V even_a = y[0] + y[2] * kA2, odd_a = y[1] * kA + y[3] * kA3;
  const V even_b = y[0] + y[2] * kB2, odd_b = y[1] * kB + y[3] * kB3;
  s[0] = y[0];
  s[1] = even_a + odd_a;
  s[2] = even_a - odd_a;
  s[3] = even_b + odd_b;
  s[4] = even_b - odd_b;
}

// The gradients of the taps of TransformFilter.
template <int64_t kTaps, class V>
SNUG_INLINE void TransformFilterGrad(const V* v, V* g) {
  static_assert(kTaps >= 3 && kTaps <= 5);
  const V sum_a = (v[1] + v[2]) * kGA, sum_b = (v[3] + v[4]) * kGB;
  const V difference_a = v[1] - v[2], difference_b = v[3] - v[4];
  g[0] = v[0] * kG0 + sum_a + sum_b;
  g[1] = difference_a * (kA * kGA) + difference_b * (kB * kGB);
  g[2] = sum_a * kA2 + sum_b * kB2;
  if constexpr (kTaps > 3) g[3] = difference_a * (kA3 * kGA) + difference_b * (kB3 * kGB);
  if constexpr (kTaps > 4) g[4] = sum_a * kA4 + sum_b * kB4;
}

}  // namespace winograd
}  // namespace snug::core
