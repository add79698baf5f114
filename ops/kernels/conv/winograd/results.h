// The transform of a tile's sums into results (winograd.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "ops/activation.h"
#include "ops/kernels/conv/winograd/axes.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"

namespace snug::core {
namespace winograd {

// Transforms the sums of one tile back, for the output channels from `out` on, and writes what of it is there. Where
// the tile `next` is written is asked for on the way. `kWhole`: the tile is.
template <Isa kIsa, class Axis, bool kWhole, class T, class Function>
SNUG_INLINE void WriteTileOf(const WinogradSizes& s, const TileAt& at, const TileAt& next, int64_t out,
                             const float* sums, int64_t sum_stride, const T* bias, const Function& function, T* y) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>, kSums = Axis::kSums, kResults = Axis::kResults;
  const int64_t height = kWhole ? kOut : at.height, width = kWhole ? kOut : at.width;
  const TilePixels pixels = ResultPixels<Axis>(s, at), coming = ResultPixels<Axis>(s, next);
  const int64_t channels = std::min(kOutBlock, s.out_channels - out);
  const int64_t lines = Axis::ResultCount(height), line_pixels = Axis::ResultCount(width);
  for (int64_t o = 0; o < channels; o += kLanes) {
    for (int64_t i = 0; i < kResults; ++i) {
      for (int64_t j = 0; j < kResults; ++j) __builtin_prefetch(y + coming.At(i, j) + out + o, 1, 3);
    }
    Vector across[kResults * kSums] = {};
    for (int64_t j = 0; j < kSums; ++j) {
      if (!kWhole && !HasPoint(width, Axis::NumberOfSum(j))) continue;
      Vector column[kSums], result[kResults];
      for (int64_t i = 0; i < kSums; ++i) {
        column[i] = Vector{};
        if (kWhole || HasPoint(height, Axis::NumberOfSum(i))) {
          LoadFloats(sums + (i * kSums + j) * sum_stride + o, column[i]);
        }
      }
      Axis::Result(height, column, result);
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
        function(value);
        StoreFloats(value, y + pixels.At(i, j) + out + o);
      }
    }
  }
}
template <Isa kIsa, class Axis, class T, class Function>
SNUG_INLINE void WriteTile(const WinogradSizes& s, const TileAt& at, const TileAt& next, int64_t out, const float* sums,
                           int64_t sum_stride, const T* bias, const Function& function, T* y) {
  if (at.whole()) return WriteTileOf<kIsa, Axis, true>(s, at, next, out, sums, sum_stride, bias, function, y);
  WriteTileOf<kIsa, Axis, false>(s, at, next, out, sums, sum_stride, bias, function, y);
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

// Calls body(function), where function(vector) applies the activation to a vector.
template <class Axis, class Body>
SNUG_INLINE void WithActivationOf(Activation activation, const Body& body) {
  const auto identity = [](auto&) SNUG_LAMBDA {};
  if constexpr (!Axis::kActivates) return body(identity);
  switch (activation) {
    case Activation::kIdentity:
      return body(identity);
    case Activation::kRelu:
      return body([](auto& v) SNUG_LAMBDA { Each(v, [](float x) SNUG_LAMBDA { return x < 0.0F ? 0.0F : x; }); });
    case Activation::kRelu6:
      return body([](auto& v) SNUG_LAMBDA {
        Each(v, [](float x) SNUG_LAMBDA { return x < 0.0F ? 0.0F : x > 6.0F ? 6.0F : x; });
      });
    case Activation::kSigmoid:
      return body([](auto& v) SNUG_LAMBDA { Each(v, [](float x) SNUG_LAMBDA { return Sigmoid(x); }); });
    case Activation::kTanh:
      return body([](auto& v) SNUG_LAMBDA { Each(v, [](float x) SNUG_LAMBDA { return Tanh(x); }); });
  }
}

}  // namespace winograd
}  // namespace snug::core
