// Pools a row of windows in plain storage. Neighbouring windows along the width are done together, so that loops over
// them vectorise.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/pool/pooling.h"

namespace snug::core {

// Takes one tap of the windows [begin, end) of a block; window j has it at x[j * stride].
template <class Pooling, class T>
SNUG_INLINE void TakeTap(const Pooling& pooling, typename Pooling::BlockState& block, int64_t begin, int64_t end,
                         const T* x, int64_t stride, int32_t tap) {
  for (int64_t j = begin; j < end; ++j) {
    auto state = pooling.Get(block, j);
    pooling.Take(state, x[j * stride], tap);
    pooling.Set(block, j, state);
  }
}

// Computes y[window] for the windows of one row in plain storage.
template <class Pooling, class T>
SNUG_INLINE void PoolRowPlain(const PoolGeometry& g, const Pooling& pooling, const PoolRow& at, const T* x, T* y) {
  const auto& [depth, height, width] = g.axes;
  const IndexRange kd = depth.taps(at.d);
  const IndexRange kh = height.taps(at.h);
  const auto row_factor = pooling.Factor(0, at.d) * pooling.Factor(1, at.h);
  for (int64_t first = 0; first < width.out; first += kPoolBlock) {
    const int64_t windows = std::min(kPoolBlock, width.out - first);
    typename Pooling::BlockState block;
    for (int64_t j = 0; j < windows; ++j) {
      const int64_t first_tap = (kd.begin * height.window + kh.begin) * width.window + width.taps(first + j).begin;
      pooling.Set(block, j, pooling.Begin(static_cast<int32_t>(first_tap)));
    }
    for (int64_t d = kd.begin; d < kd.end; ++d) {
      const int64_t plane = at.outer * depth.in + depth.start(at.d) + d * depth.dilation;
      for (int64_t h = kh.begin; h < kh.end; ++h) {
        const T* line = x + (plane * height.in + height.start(at.h) + h * height.dilation) * width.in;
        const auto tap = static_cast<int32_t>((d * height.window + h) * width.window);
        if (width.adaptive) {
          for (int64_t j = 0; j < windows; ++j) {
            auto state = pooling.Get(block, j);
            pooling.TakeRow(state, line + width.start(first + j), width.taps(first + j).size(), tap);
            pooling.Set(block, j, state);
          }
          continue;
        }
        for (int64_t w = 0; w < width.window; ++w) {
          // Tap w is inside for the windows o with 0 <= o * stride - pad + w * dilation < in.
          const int64_t before = width.pad_begin - w * width.dilation;
          const int64_t begin = std::max(first, before <= 0 ? 0 : (before + width.stride - 1) / width.stride);
          const int64_t last = width.in - 1 + before;
          const int64_t end = std::min(first + windows, last < 0 ? 0 : last / width.stride + 1);
          const T* element = line - before + first * width.stride;
          const auto t = tap + static_cast<int32_t>(w);
          // Loops with a constant stride vectorise.
          if (width.stride == 1) {
            TakeTap(pooling, block, begin - first, end - first, element, 1, t);
          } else if (width.stride == 2) {
            TakeTap(pooling, block, begin - first, end - first, element, 2, t);
          } else {
            TakeTap(pooling, block, begin - first, end - first, element, width.stride, t);
          }
        }
      }
    }
    for (int64_t j = 0; j < windows; ++j) {
      pooling.Finish(pooling.Get(block, j), row_factor * pooling.Factor(2, first + j), y,
                     at.index * width.out + first + j);
    }
  }
}

// Computes dx[element] for the elements of one row in plain storage: each window that reaches into a piece of the row
// deals out its gradient there.
template <class Pooling, class T>
SNUG_INLINE void UnpoolRowPlain(const PoolGeometry& g, const Pooling& pooling, const PoolRow& at, const T* dy, T* dx) {
  using A = Accumulator<T>;
  constexpr int64_t kPiece = 256;
  const auto& [depth, height, width] = g.axes;
  const IndexRange od = depth.windows(at.d);
  const IndexRange oh = height.windows(at.h);
  for (int64_t first = 0; first < width.in; first += kPiece) {
    const int64_t elements = std::min(kPiece, width.in - first);
    const IndexRange ow = {width.windows(first).begin, width.windows(first + elements - 1).end};
    A sum[kPiece];
    for (int64_t j = 0; j < elements; ++j) sum[j] = 0;
    for (int64_t d = od.begin; d < od.end; ++d) {
      const int64_t tap_d = depth.tap(d, at.d);
      if (tap_d < 0) continue;
      for (int64_t h = oh.begin; h < oh.end; ++h) {
        const int64_t tap_h = height.tap(h, at.h);
        if (tap_h < 0) continue;
        const A row_factor = pooling.Factor(0, d) * pooling.Factor(1, h);
        const int64_t line = ((at.outer * depth.out + d) * height.out + h) * width.out;
        const auto tap = static_cast<int32_t>((tap_d * height.window + tap_h) * width.window);
        for (int64_t w = ow.begin; w < ow.end; ++w) {
          const A factor = row_factor * pooling.Factor(2, w);
          const int64_t start = width.start(w) - first;
          IndexRange taps = width.taps(w);  // only those in this piece, after the loops
          while (taps.begin < taps.end && start + taps.begin * width.dilation < 0) ++taps.begin;
          while (taps.begin < taps.end && start + (taps.end - 1) * width.dilation >= elements) --taps.end;
          pooling.Deal(dy, line + w, tap, taps, width.dilation, factor, sum + start);
        }
      }
    }
    T* to = dx + at.index * width.in + first;
    for (int64_t j = 0; j < elements; ++j) to[j] = T(sum[j]);
  }
}

}  // namespace snug::core
