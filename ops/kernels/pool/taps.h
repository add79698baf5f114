// Finds the taps of a row's windows in channels-last storage, and lets windows take them, many channels at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/kernels/pool/pooling.h"

namespace snug::core {

inline constexpr int kFewLanes = 16;

// Calls fn(constant N, first lane, how many of the N lanes exist), first for 64 lanes at a time, so that work on one
// vector need not wait for work on another, then for 16.
template <class Fn>
SNUG_INLINE void ForEachLaneBlock(int64_t lanes, Fn fn) {
  constexpr std::integral_constant<int, 64> kMany;
  constexpr std::integral_constant<int, kFewLanes> kFew;
  int64_t lane = 0;
  for (; lane + kMany <= lanes; lane += kMany) fn(kMany, lane, int64_t{kMany});
  for (; lane < lanes; lane += kFew) fn(kFew, lane, std::min<int64_t>(kFew, lanes - lane));
}

// An element of a window: its distance from the window's start on the width axis, and which tap it is.
struct WindowTap {
  int64_t at;
  int32_t tap;
};

// Calls fn(tap) for the taps kd x kh x kw of the windows in a row, in row-major order.
template <class Fn>
SNUG_INLINE void ForEachTap(const PoolGeometry& g, const PoolRow& at, IndexRange kd, IndexRange kh, IndexRange kw,
                            Fn fn) {
  const PoolAxis& depth = g.axes[0];
  const PoolAxis& height = g.axes[1];
  const PoolAxis& width = g.axes[2];
  for (int64_t d = kd.begin; d < kd.end; ++d) {
    const int64_t plane = at.outer * depth.in + depth.start(at.d) + d * depth.dilation;
    for (int64_t h = kh.begin; h < kh.end; ++h) {
      const int64_t line = plane * height.in + height.start(at.h) + h * height.dilation;
      const int64_t tap = (d * height.window + h) * width.window;
      for (int64_t w = kw.begin; w < kw.end; ++w) {
        fn(WindowTap{(line * width.in + w * width.dilation) * g.lanes, static_cast<int32_t>(tap + w)});
      }
    }
  }
}

// The taps of a window, if they are few. They are found once for all windows of a row that have the same.
class TapList {
 public:
  static constexpr int64_t kMost = 64;

  SNUG_INLINE void Find(const PoolGeometry& g, const PoolRow& at, IndexRange kd, IndexRange kh, IndexRange kw) {
    if (kw.begin == kw_.begin && kw.end == kw_.end) return;
    kw_ = kw;
    count_ = 0;
    ForEachTap(g, at, kd, kh, kw, [&](WindowTap tap) SNUG_LAMBDA { taps_[count_++] = tap; });
  }
  SNUG_INLINE int64_t count() const { return count_; }
  SNUG_INLINE const WindowTap& operator[](int64_t i) const { return taps_[i]; }

  // The same taps of elements that lie so far from each other.
  SNUG_INLINE TapList SideBySide(int64_t pitch) const {
    TapList list;
    list.count_ = count_;
    for (int64_t i = 0; i < count_; ++i) list.taps_[i] = {i * pitch, taps_[i].tap};
    return list;
  }

 private:
  IndexRange kw_ = {-1, -1};
  int64_t count_ = 0;
  WindowTap taps_[kMost];
};

// Takes K taps, from the i-th on, for a window whose lanes begin at element `start` of x.
template <int N, int K, class Pooling, class T>
SNUG_INLINE void TakeTaps(const Pooling& pooling, const TapList& list, int64_t i, const T* x, int64_t start,
                          typename Pooling::template LaneState<N>& state) {
  std::array<const T*, K> from;
  std::array<int32_t, K> taps;
  for (int64_t k = 0; k < K; ++k) {
    from[static_cast<size_t>(k)] = x + (start + list[i + k].at);
    taps[static_cast<size_t>(k)] = list[i + k].tap;
  }
  pooling.template TakeLanes<N, K>(state, from, taps);
}

// Takes all taps.
template <int N, class Pooling, class T>
SNUG_INLINE void TakeAllTaps(const Pooling& pooling, const TapList& list, const T* x, int64_t start,
                             typename Pooling::template LaneState<N>& state) {
  int64_t i = 0;
  if constexpr (N > kFewLanes) {  // between groups the state lies in memory: windows of 3 x 3 taps are one group
    for (; i + 9 <= list.count(); i += 9) TakeTaps<N, 9>(pooling, list, i, x, start, state);
  }
  for (; i + 4 <= list.count(); i += 4) TakeTaps<N, 4>(pooling, list, i, x, start, state);
  for (; i < list.count(); ++i) TakeTaps<N, 1>(pooling, list, i, x, start, state);
}

}  // namespace snug::core
