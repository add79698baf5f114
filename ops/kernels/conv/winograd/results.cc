#include "ops/kernels/conv/winograd/results.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/base/dtype.h"
#include "ops/kernels/conv/winograd/axes.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"

namespace snug::core::winograd {
namespace {

// Transforms the sums of one tile back, for the output channels from `out` on, and writes what of it is there. Where
// the tile `next` is written is asked for on the way. `kWhole`: the tile is.
template <Isa kIsa, class Axis, bool kWhole, class T, class Activate>
SNUG_INLINE void WriteTile(const WinogradSizes& s, const TileAt& at, const TileAt& next, int64_t out, const float* sums,
                           int64_t sum_stride, const T* bias, const Activate& activate, T* y) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>, kSums = Axis::kSums, kResults = Axis::kResults;
  const int64_t height = kWhole ? Axis::kTile : at.height, width = kWhole ? Axis::kTile : at.width;
  const TilePixels pixels = ResultPixels<Axis>(s, at), coming = ResultPixels<Axis>(s, next);
  const int64_t channels = std::min(OutBlockOf(s.kind), s.out_channels - out);
  const int64_t lines = Axis::ResultCount(height), line_pixels = Axis::ResultCount(width);
  for (int64_t o = 0; o < channels; o += kLanes) {
#pragma GCC unroll 9
    for (int64_t i = 0; i < kResults; ++i) {
#pragma GCC unroll 9
      for (int64_t j = 0; j < kResults; ++j) __builtin_prefetch(y + coming.At(i, j) + out + o, 1, 3);
    }
    Vector across[kResults * kSums] = {};
#pragma GCC unroll 9
    for (int64_t j = 0; j < kSums; ++j) {
      if (!kWhole && !HasPoint(width, Axis::NumberOfSum(j))) continue;
      Vector column[kSums], result[kResults];
#pragma GCC unroll 9
      for (int64_t i = 0; i < kSums; ++i) {
        column[i] = Vector{};
        if (kWhole || HasPoint(height, Axis::NumberOfSum(i))) {
          LoadFloats(sums + (i * kSums + j) * sum_stride + o, column[i]);
        }
      }
      Axis::Result(height, column, result);
#pragma GCC unroll 9
      for (int64_t i = 0; i < kResults; ++i) across[i * kSums + j] = result[i];
    }
    Vector shift = {};
    if (bias != nullptr) LoadFloats(bias + out + o, shift);
    for (int64_t i = 0; i < lines; ++i) {
      if (!pixels.HasRow(i)) continue;
      Vector line[kResults];
      Axis::Result(width, across + i * kSums, line);
      for (int64_t j = 0; j < line_pixels; ++j) {
        if (!pixels.HasColumn(j)) continue;
        Vector value = line[j] + shift;
        activate(value);
        StoreFloats(value, y + pixels.At(i, j) + out + o);
      }
    }
  }
}

// Applies `f` to every element.
template <class Vector, class F>
SNUG_INLINE void Each(Vector& v, F f) {
  constexpr int64_t kCount = sizeof(Vector) / sizeof(float);
  alignas(Vector) float values[kCount];
  std::memcpy(values, &v, sizeof(v));
  for (int64_t i = 0; i < kCount; ++i) values[i] = f(values[i]);
  std::memcpy(&v, values, sizeof(v));
}

// relu and relu6.
struct Clamped {
  float low, high;

  template <class Vector>
  SNUG_INLINE void operator()(Vector& v) const {
    Clamp(low, high, v);
  }
};
// sigmoid and tanh. Which of them is known as it runs, so what is written is compiled once for both.
struct Curved {
  Activation activation;

  template <class Vector>
  SNUG_INLINE void operator()(Vector& v) const {
    if (activation == Activation::kSigmoid) return Each(v, [](float x) SNUG_LAMBDA { return Sigmoid(x); });
    Each(v, [](float x) SNUG_LAMBDA { return Tanh(x); });
  }
};
struct NoActivation {
  template <class Vector>
  SNUG_INLINE void operator()(Vector& /*v*/) const {}
};

}  // namespace

template <class T>
void WriteTiles(const WinogradSizes& s, const Tiling& tiling, const TileBlock& tiles, int64_t out, const float* sums,
                int64_t sum_stride, const T* bias, Activation activation, T* y) {
  WithIsa([&](auto isa) SNUG_LAMBDA {
    WithAxis(s.kind, [&](auto axis) SNUG_LAMBDA {
      using Axis = decltype(axis);
      const auto write = [&](const auto& activate) SNUG_LAMBDA {
        for (int64_t t = 0; t < tiles.count(); ++t) {
          const TileAt at(tiling, tiles[t]), next(tiling, tiles[std::min(t + 1, tiles.count() - 1)]);
          const float* const from = sums + t * tiling.out_block;
          WithWhole(at, [&](auto whole) SNUG_LAMBDA {
            WriteTile<isa(), Axis, whole()>(s, at, next, out, from, sum_stride, bias, activate, y);
          });
        }
      };
      if constexpr (Axis::kActivates) {
        if (activation == Activation::kRelu) return write(Clamped{0, std::numeric_limits<float>::infinity()});
        if (activation == Activation::kRelu6) return write(Clamped{0, 6});
        if (activation != Activation::kIdentity) return write(Curved{activation});
      }
      write(NoActivation());
    });
  });
}

template void WriteTiles(const WinogradSizes&, const Tiling&, const TileBlock&, int64_t, const float*, int64_t,
                         const float*, Activation, float*);
template void WriteTiles(const WinogradSizes&, const Tiling&, const TileBlock&, int64_t, const float*, int64_t,
                         const BFloat16*, Activation, BFloat16*);

}  // namespace snug::core::winograd
