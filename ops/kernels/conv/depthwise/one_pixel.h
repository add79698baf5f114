// One pixel of a depthwise convolution, from any of its taps: where windows are not side by side, or not whole.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/conv/depthwise/depthwise.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::ops {
namespace depthwise {

constexpr int64_t kMostTaps = 25;

// Where the data and the taps of one result lie.
template <class T>
struct TapList {
  SNUG_INLINE void Add(const T* x, const float* tap) {
    data[count] = x;
    taps[count++] = tap;
  }
  int64_t count = 0;
  const T* data[kMostTaps];
  const float* taps[kMostTaps];
};

// Computes one result of all channels. kCount is the number of taps, or -1.
template <Isa kIsa, int kCount, class T>
SNUG_INLINE void SumTaps(const DepthwiseRows<T>& r, const TapList<T>& list, T* y) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  const int64_t count = kCount >= 0 ? kCount : list.count;
  for (int64_t begin = 0; begin < r.channels; begin += Tile::kLanes) {
    const int64_t c = std::min(begin, r.channels - Tile::kLanes);
    Vector sum;
    LoadFloats(r.bias + c, sum);
#pragma GCC unroll 4
    for (int64_t t = 0; t < count; ++t) {
      Vector value, tap;
      LoadFloats(list.data[t] + c, value);
      LoadFloats(list.taps[t] + c, tap);
      sum += value * tap;
    }
    Clamp(r.least, r.most, sum);
    StoreFloats(sum, y + c);
  }
}

template <Isa kIsa, class T>
SNUG_INLINE void SumTapsOf(const DepthwiseRows<T>& r, const TapList<T>& list, T* y) {
  switch (list.count) {  // what the gradient of a convolution in steps of 2 has most
    case 1:
      return SumTaps<kIsa, 1>(r, list, y);
    case 2:
      return SumTaps<kIsa, 2>(r, list, y);
    case 4:
      return SumTaps<kIsa, 4>(r, list, y);
    default:
      return SumTaps<kIsa, -1>(r, list, y);
  }
}

}  // namespace depthwise
}  // namespace snug::core::ops
