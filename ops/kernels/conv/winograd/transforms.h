// The transforms of Winograd's filtering (winograd.h), one axis at a time, for anything that adds and multiplies.
#pragma once

#include <cstdint>

#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

inline constexpr float kA = 0.625F, kB = 1.5F;  // the points, with their opposites
inline constexpr float kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;
inline constexpr float kG0 = 1 / (kA2 * kB2);
inline constexpr float kGA = 1 / (2 * kA2 * (kA2 - kB2));
inline constexpr float kGB = 1 / (2 * kB2 * (kB2 - kA2));

inline constexpr int64_t kOut = 4;             // elements of a tile's result along an axis
inline constexpr int64_t kIn = 6;              // of its data
inline constexpr int64_t kPoints = kIn * kIn;  // products of a tile and a pair of channels
inline constexpr int64_t kTaps = 9;

// Each goes through `from` and `to` in steps.
template <class V>
SNUG_INLINE void TransformData(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V d0 = from[0], d1 = from[from_step], d2 = from[2 * from_step], d3 = from[3 * from_step],
          d4 = from[4 * from_step], d5 = from[5 * from_step];
  const V even_a = d4 - d2 * kB2, odd_a = (d3 - d1 * kB2) * kA;
  const V even_b = d4 - d2 * kA2, odd_b = (d3 - d1 * kA2) * kB;
  to[0] = d0 * (kA2 * kB2) - d2 * (kA2 + kB2) + d4;
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = d1 * (kA2 * kB2) - d3 * (kA2 + kB2) + d5;
}

template <class V>
SNUG_INLINE void TransformFilter(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V g0 = from[0], g1 = from[from_step], g2 = from[2 * from_step];
  const V even_a = (g0 + g2 * kA2) * kGA, odd_a = g1 * (kA * kGA);
  const V even_b = (g0 + g2 * kB2) * kGB, odd_b = g1 * (kB * kGB);
  to[0] = g0 * kG0;
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = g2;
}

template <class V>
SNUG_INLINE void TransformResult(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V sum_a = from[from_step] + from[2 * from_step], difference_a = from[from_step] - from[2 * from_step];
  const V sum_b = from[3 * from_step] + from[4 * from_step], difference_b = from[3 * from_step] - from[4 * from_step];
  to[0] = from[0] + sum_a + sum_b;
  to[to_step] = difference_a * kA + difference_b * kB;
  to[2 * to_step] = sum_a * kA2 + sum_b * kB2;
  to[3 * to_step] = difference_a * kA3 + difference_b * kB3 + from[5 * from_step];
}

// The gradients of these: TransformResult's, which is for dy, and TransformFilter's.
template <class V>
SNUG_INLINE void TransformResultGrad(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V y0 = from[0], y1 = from[from_step], y2 = from[2 * from_step], y3 = from[3 * from_step];
  const V even_a = y0 + y2 * kA2, odd_a = y1 * kA + y3 * kA3;
  const V even_b = y0 + y2 * kB2, odd_b = y1 * kB + y3 * kB3;
  to[0] = y0;
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = y3;
}

template <class V>
SNUG_INLINE void TransformFilterGrad(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V sum_a = (from[from_step] + from[2 * from_step]) * kGA;
  const V difference_a = (from[from_step] - from[2 * from_step]) * (kA * kGA);
  const V sum_b = (from[3 * from_step] + from[4 * from_step]) * kGB;
  const V difference_b = (from[3 * from_step] - from[4 * from_step]) * (kB * kGB);
  to[0] = from[0] * kG0 + sum_a + sum_b;
  to[to_step] = difference_a + difference_b;
  to[2 * to_step] = sum_a * kA2 + sum_b * kB2 + from[5 * from_step];
}

}  // namespace winograd
}  // namespace snug::core
