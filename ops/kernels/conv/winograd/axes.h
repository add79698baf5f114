// How Winograd's filtering goes along one axis (winograd.h), for each kind of convolution. A tile has data, which are
// transformed into values at points; products with what filters are transformed into; sums, to which products are
// added; and results. What is said of an axis holds for rows and for columns, so a tile has the square of each number.
#pragma once

#include <cstdint>

#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/transforms.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

// Where a tile's data or results lie: pixels first, first + step, ...
struct Places {
  int64_t first, step;

  SNUG_INLINE int64_t at(int64_t i) const { return first + i * step; }
};

// Adds to the one of four vectors that is `i`, or returns it. With i as an index they could not stay in registers.
template <class V>
SNUG_INLINE void AddTo(int64_t i, const V& more, V* to) {
  for (int64_t l = 0; l < kOut; ++l) {
    if (l == i) to[l] += more;
  }
}
template <class V>
SNUG_INLINE V Chosen(int64_t i, const V* from) {
  return i == 0 ? from[0] : i == 1 ? from[1] : i == 2 ? from[2] : from[3];
}

// What the axes of stride 1 have in common: six points.
struct SingleSteps {
  static constexpr int64_t kData = 6, kPoints = 6, kProducts = 6, kSums = 6;
  static constexpr bool kActivates = true;

  static constexpr int64_t PointOf(int64_t product) { return product; }
  static constexpr int64_t SumOf(int64_t product) { return product; }

  // How many results the axis has, between data and output of these sizes. Where the data and the results of a tile
  // lie that begins with that result, and how many a tile of m results has.
  static int64_t Results(int64_t /*in*/, int64_t out) { return out; }
  static Places DataOf(int64_t result, int64_t /*in*/, int64_t pad) { return {result - pad, 1}; }
  static Places ResultsOf(int64_t result, int64_t /*in*/) { return {result, 1}; }
  static constexpr int64_t ResultCount(int64_t m) { return m; }
};

// Three taps.
struct PlainAxis : SingleSteps {
  static constexpr int64_t kTaps = 3;  // of a filter
  static constexpr int64_t kTile = 4;  // results of a whole tile
  static constexpr int64_t kResults = 4;
  static constexpr int64_t kNewData = 4;  // that the tile before does not have

  // Which point it is, where every tile has infinity as it has 0.
  static constexpr int64_t NumberOf(int64_t product) { return product == kFinite ? 0 : product; }
  static constexpr int64_t NumberOfPoint(int64_t point) { return NumberOf(point); }
  static constexpr int64_t NumberOfSum(int64_t sum) { return NumberOf(sum); }

  static constexpr int64_t DataCount(int64_t m) { return m + 2; }

  template <class V>
  SNUG_INLINE static void Data(int64_t m, const V* d, V* v) {
    TransformData(m, d, v);
    v[kFinite] = TransformDataAtInfinity(m, d);
  }
  template <class V>
  SNUG_INLINE static void Filter(const V* g, V* v) {
    TransformFilter<kTaps>(g, v);
    v[kFinite] = g[2];
  }
  template <class V>
  SNUG_INLINE static void Result(int64_t m, const V* s, V* y) {
    TransformSums(s, y);
    AddTo(m - 1, s[kFinite], y);
  }
  template <class V>
  SNUG_INLINE static void ResultGrad(int64_t m, const V* y, V* s) {
    TransformSumsGrad(y, s);
    s[kFinite] = Chosen(m - 1, y);
  }
  template <class V>
  SNUG_INLINE static void FilterGrad(const V* v, V* g) {
    TransformFilterGrad<kTaps>(v, g);
    g[2] += v[kFinite];
  }
};

// Four taps or five, which have the same points for three results or two. A tile at an edge is computed like a whole
// one, with zeros for data that are not there; only the results that exist are written.
template <int64_t kTapsOfFilter>
struct MoreTapsAxis : SingleSteps {
  static constexpr int64_t kTaps = kTapsOfFilter, kTile = 7 - kTaps;
  static constexpr int64_t kResults = kTile, kNewData = kTile;

  static constexpr int64_t NumberOf(int64_t /*product*/) { return 0; }
  static constexpr int64_t NumberOfPoint(int64_t /*point*/) { return 0; }
  static constexpr int64_t NumberOfSum(int64_t /*sum*/) { return 0; }
  static constexpr int64_t DataCount(int64_t /*m*/) { return kData; }

  template <class V>
  SNUG_INLINE static void Data(int64_t /*m*/, const V* d, V* v) {
    TransformData(kOut, d, v);
    v[kFinite] = TransformDataAtInfinity(kOut, d);
  }
  template <class V>
  SNUG_INLINE static void Filter(const V* g, V* v) {
    TransformFilter<kTaps>(g, v);
    v[kFinite] = g[kTaps - 1];
  }
  template <class V>
  SNUG_INLINE static void Result(int64_t /*m*/, const V* s, V* y) {
    V results[kOut];  // of three taps
    TransformSums(s, results);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kTile; ++i) y[i] = results[i];
    y[kTile - 1] += s[kFinite];
  }
  template <class V>
  SNUG_INLINE static void ResultGrad(int64_t /*m*/, const V* y, V* s) {
    V grads[kOut] = {};
#pragma GCC unroll 4
    for (int64_t i = 0; i < kTile; ++i) grads[i] = y[i];
    TransformSumsGrad(grads, s);
    s[kFinite] = y[kTile - 1];
  }
  template <class V>
  SNUG_INLINE static void FilterGrad(const V* v, V* g) {
    TransformFilterGrad<kTaps>(v, g);
    g[kTaps - 1] += v[kFinite];
  }
};

// Of the products at the five points of two taps, all but the first have one of the middle tap behind them.
constexpr int64_t PointOfTwoTaps(int64_t product) { return (product + 1) / 2; }
inline constexpr int64_t kProductsInSteps = 9;

// Stride 2, one pixel of padding: the outer taps meet the data of a tile in even places, the middle one those in odd
// places. The products of both at a point go into one sum.
struct StepsAxis {
  static constexpr int64_t kTaps = 3, kTile = 4;
  static constexpr int64_t kData = 9, kPoints = 9, kProducts = kProductsInSteps, kSums = 5, kResults = 4;
  static constexpr int64_t kNewData = 8;
  static constexpr bool kActivates = true;

  static constexpr int64_t PointOf(int64_t product) { return product; }
  static constexpr int64_t SumOf(int64_t product) { return PointOfTwoTaps(product); }
  static constexpr int64_t NumberOf(int64_t product) { return PointOfTwoTaps(product); }
  static constexpr int64_t NumberOfPoint(int64_t point) { return PointOfTwoTaps(point); }
  static constexpr int64_t NumberOfSum(int64_t sum) { return sum; }

  static int64_t Results(int64_t /*in*/, int64_t out) { return out; }
  static Places DataOf(int64_t result, int64_t /*in*/, int64_t pad) { return {2 * result - pad, 1}; }
  static Places ResultsOf(int64_t result, int64_t /*in*/) { return {result, 1}; }
  static constexpr int64_t DataCount(int64_t m) { return 2 * m + 1; }
  static constexpr int64_t ResultCount(int64_t m) { return m; }

  template <class V>
  SNUG_INLINE static void Data(int64_t m, const V* d, V* v) {
    const V even[kFinite] = {d[0], d[2], d[4], d[6], d[8]}, odd[kFinite] = {V{}, d[1], d[3], d[5], d[7]};
    V of_even[kFinite] = {}, of_odd[kFinite] = {};
    TransformData(m, even, of_even);
    TransformData(m, odd, of_odd);
    v[0] = of_even[0];
    for (int64_t i = 1; i < kFinite; ++i) {
      v[2 * i - 1] = of_even[i];
      v[2 * i] = of_odd[i];
    }
  }
  // The middle tap is the second of two, the first of which is zero: it has no product at the point 0.
  template <class V>
  SNUG_INLINE static void Filter(const V* g, V* v) {
    const V outer_taps[kTaps] = {g[0], g[2], V{}}, middle_tap[kTaps] = {V{}, g[1], V{}};
    V outer[kFinite], middle[kFinite];
    TransformFilter<kTaps>(outer_taps, outer);
    TransformFilter<kTaps>(middle_tap, middle);
    v[0] = outer[0];
    for (int64_t i = 1; i < kFinite; ++i) {
      v[2 * i - 1] = outer[i];
      v[2 * i] = middle[i];
    }
  }
  template <class V>
  SNUG_INLINE static void Result(int64_t /*m*/, const V* s, V* y) {
    TransformSums(s, y);
  }
  template <class V>
  SNUG_INLINE static void ResultGrad(int64_t /*m*/, const V* y, V* s) {
    TransformSumsGrad(y, s);
  }
  template <class V>
  SNUG_INLINE static void FilterGrad(const V* v, V* g) {
    const V outer[kFinite] = {v[0], v[1], v[3], v[5], v[7]}, middle[kFinite] = {V{}, v[2], v[4], v[6], v[8]};
    V outer_taps[kTaps], middle_tap[kTaps];  // the other entries are of taps that do not exist
    TransformFilterGrad<kTaps>(outer, outer_taps);
    TransformFilterGrad<kTaps>(middle, middle_tap);
    g[0] = outer_taps[0];
    g[1] = middle_tap[1];
    g[2] = outer_taps[1];
  }
};

// The gradient of its data, a convolution of dy with the same filters: pixels that the outer taps met have two taps,
// those between have one, and both have one transform of dy. A tile goes from the last pixels to the first: with a
// pixel of padding the last one, or the one after it, is an outer tap's, where a tile has to begin.
struct BetweenStepsAxis {
  static constexpr int64_t kTaps = 3, kTile = 4;
  static constexpr int64_t kData = 5, kPoints = 5, kProducts = kProductsInSteps, kSums = kProducts, kResults = 8;
  static constexpr int64_t kNewData = 4;
  static constexpr bool kActivates = false;  // a gradient has no activation

  static constexpr int64_t PointOf(int64_t product) { return PointOfTwoTaps(product); }
  static constexpr int64_t SumOf(int64_t product) { return product; }
  static constexpr int64_t NumberOf(int64_t product) { return PointOfTwoTaps(product); }
  static constexpr int64_t NumberOfPoint(int64_t point) { return point; }
  static constexpr int64_t NumberOfSum(int64_t sum) { return PointOfTwoTaps(sum); }

  // Here a result is two pixels.
  static int64_t Results(int64_t in, int64_t /*out*/) { return in; }
  static Places DataOf(int64_t result, int64_t in, int64_t /*pad*/) { return {in - result, -1}; }
  static Places ResultsOf(int64_t result, int64_t in) { return {2 * (in - result) - 1, -1}; }
  static constexpr int64_t DataCount(int64_t m) { return m + 1; }
  static constexpr int64_t ResultCount(int64_t m) { return 2 * m; }

  template <class V>
  SNUG_INLINE static void Data(int64_t m, const V* d, V* v) {
    TransformData(m, d, v);
  }
  template <class V>
  SNUG_INLINE static void Result(int64_t /*m*/, const V* s, V* y) {
    const V outer[kFinite] = {s[0], s[1], s[3], s[5], s[7]}, middle[kFinite] = {V{}, s[2], s[4], s[6], s[8]};
    V of_outer[kOut], of_middle[kOut];
    TransformSums(outer, of_outer);
    TransformSums(middle, of_middle);
    for (int64_t i = 0; i < kOut; ++i) {
      y[2 * i] = of_outer[i];
      y[2 * i + 1] = of_middle[i];
    }
  }
};

// A tile's sums and the filters of one block of output channels are to stay in the second-level cache. Between steps
// each product has a sum of its own, so blocks are smaller, and filters of twice as many input channels have room.
constexpr int64_t OutBlockOf(WinogradKind kind) {
  return kind == WinogradKind::kBetweenSteps ? kOutBlock / 2 : kOutBlock;
}

// Calls body(axis) for the axis whose filters that kind has: both directions in steps have the same.
template <class Body>
SNUG_INLINE void WithFilterAxis(WinogradKind kind, const Body& body) {
  switch (kind) {
    case WinogradKind::kPlain:
      return body(PlainAxis());
    case WinogradKind::kFourTaps:
      return body(MoreTapsAxis<4>());
    case WinogradKind::kFiveTaps:
      return body(MoreTapsAxis<5>());
    case WinogradKind::kInSteps:
    case WinogradKind::kBetweenSteps:
      return body(StepsAxis());
  }
}

// Calls body(axis) for the axis of that kind.
template <class Body>
SNUG_INLINE void WithAxis(WinogradKind kind, const Body& body) {
  if (kind == WinogradKind::kBetweenSteps) return body(BetweenStepsAxis());
  WithFilterAxis(kind, body);
}

}  // namespace winograd
}  // namespace snug::core
