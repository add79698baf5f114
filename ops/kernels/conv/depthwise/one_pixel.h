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

inline constexpr int64_t kMostTaps = kMostDepthwiseLines * 5;

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

// Computes one result of some channels.
template <Isa kIsa, class T>
SNUG_INLINE void SumTaps(const DepthwiseRows<T>& r, const DepthwiseChannels& channels, const TapList<T>& list, T* y) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  for (int64_t begin = 0; begin < channels.count; begin += Tile::kLanes) {
    const int64_t c = channels.first + std::min(begin, channels.count - Tile::kLanes);
    Vector sum;
    LoadFloats(r.bias + c, sum);
    for (int64_t t = 0; t < list.count; ++t) {
      Vector value, tap;
      LoadFloats(list.data[t] + c, value);
      LoadFloats(list.taps[t] + c, tap);
      sum += value * tap;
    }
    Clamp(r.least, r.most, sum);
    StoreFloats(sum, y + c);
  }
}

}  // namespace depthwise
}  // namespace snug::core::ops
