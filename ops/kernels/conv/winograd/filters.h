// The transform of filters (winograd.h) into panels for the products of a block of output channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/conv/winograd/axes.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

// Reads the taps of a vector of output channels from `out` on and of `count` input channels from `c` on, at most as
// many: taps[input channel][tap][output channel].
template <Isa kIsa, class T>
SNUG_INLINE void ReadTaps(const WinogradFilters<T>& filters, int64_t out, int64_t c, int64_t count, float* taps) {
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  const T* from = filters.data + out * filters.out_stride + c * filters.in_stride;
  if (filters.in_stride == kTaps)
    return TransposeRows<kLanes, kLanes>(count * kTaps, from, filters.out_stride, taps, kLanes);
  constexpr int64_t kSide = std::min<int64_t>(kLanes, 8);  // a filter has more taps than that
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t l = 0; l < kLanes; l += kSide) {
      TransposeRows<kSide, kSide>(kTaps, from + i * filters.in_stride + l * filters.out_stride, filters.out_stride,
                                  taps + i * kTaps * kLanes + l, kLanes);
    }
  }
}

// Transforms the filters of kOutBlock output channels from `out` on, of some input channels, into panels of `rows` for
// input channels from the first of these on: [product][panel][row][columns of a panel]. Output channels that are not
// there get zeros.
template <Isa kIsa, class Axis, class T>
SNUG_INLINE void TransformFilters(const WinogradSizes& s, const WinogradFilters<T>& filters, int64_t out,
                                  const Channels& channels, float* panels, int64_t rows, int64_t product_stride) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  constexpr int64_t kColumns = GemmTile<kIsa, float>::kColumns;
  constexpr int64_t kProducts = Axis::kProducts;
  static_assert(kWinogradChannels % kLanes == 0, "a vector's output channels are all there, or none is");
  for (int64_t o = 0; o < kOutBlock; o += kLanes) {
    float* panel = panels + o / kColumns * kColumns * rows + o % kColumns;
    for (int64_t first = 0; first < channels.count; first += kLanes) {
      const int64_t count = std::min(kLanes, channels.count - first);
      alignas(Vector) float taps[kLanes * kTaps * kLanes];
      if (out + o < s.out_channels) {
        ReadTaps<kIsa>(filters, out + o, channels.first + first, count, taps);
      } else {
        std::fill_n(taps, count * kTaps * kLanes, 0.0F);
      }
      for (int64_t c = 0; c < count; ++c) {
        Vector lines[kTaps], across[3 * kProducts];
        for (int64_t t = 0; t < kTaps; ++t) {
          LoadFloats(taps + (c * kTaps + (filters.reversed ? kTaps - 1 - t : t)) * kLanes, lines[t]);
        }
        for (int64_t i = 0; i < 3; ++i) {
          Axis::Filter(lines[i * 3], lines[i * 3 + 1], lines[i * 3 + 2], across + i * kProducts);
        }
        for (int64_t j = 0; j < kProducts; ++j) {
          Vector down[kProducts];
          Axis::Filter(across[j], across[kProducts + j], across[2 * kProducts + j], down);
          for (int64_t i = 0; i < kProducts; ++i) {
            StoreFloats(down[i], panel + (i * kProducts + j) * product_stride + (first + c) * kColumns);
          }
        }
      }
    }
  }
}

// Transforms all filters, on several threads.
template <class T>
void TransformAllFilters(int threads, const WinogradSizes& sizes, const WinogradFilters<T>& filters, float* panels);

}  // namespace winograd
}  // namespace snug::core
