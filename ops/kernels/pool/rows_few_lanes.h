// Pools a row in channels-last storage with few channels. Windows that lie wholly inside of the input are done without
// a look at each one's bounds: one after the other, each with a vector of lanes, of which those behind the channels
// belong to the next window; or, where most of these lanes would be the next window's, several together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/pool/pooling.h"
#include "ops/kernels/pool/taps.h"

namespace snug::core {

inline constexpr IndexRange kNoWindows = {-1, -1};

// Returns the windows of a row whose taps all lie inside of it. They differ in nothing but their position.
SNUG_INLINE IndexRange WholeWindows(const PoolAxis& width) {
  const int64_t last_start = width.in - (width.window - 1) * width.dilation - 1;
  if (width.adaptive || last_start < 0) return kNoWindows;
  const int64_t begin = (width.pad_begin + width.stride - 1) / width.stride;
  const int64_t end = std::min(width.out, (last_start + width.pad_begin) / width.stride + 1);
  return begin < end ? IndexRange{begin, end} : kNoWindows;
}

struct RowOfWindows {
  int64_t count, lanes;
  int64_t x_begin, x_step;  // in elements: where the first window starts, and how far it is to the next
  int64_t y_begin;
};

// Computes y for as many of these windows as vectors have room for, from the first on, and returns their number.
template <class Pooling, class T>
SNUG_INLINE int64_t PoolWindowByWindow(const Pooling& pooling, const TapList& list, const RowOfWindows& windows,
                                       int32_t first_tap, typename Pooling::A factor, const T* x, int64_t x_end, T* y,
                                       int64_t y_end) {
  const int64_t x_room = x_end - kFewLanes - list[list.count() - 1].at - windows.x_begin;
  const int64_t y_room = y_end - kFewLanes - windows.y_begin;
  if (x_room < 0 || y_room < 0) return 0;
  const int64_t count = std::min({windows.count, x_room / windows.x_step + 1, y_room / windows.lanes + 1});
  for (int64_t i = 0; i < count; ++i) {
    typename Pooling::template LaneState<kFewLanes> state;
    pooling.template BeginLanes<kFewLanes>(state, first_tap);
    TakeAllTaps<kFewLanes>(pooling, list, x, windows.x_begin + i * windows.x_step, state);
    pooling.template FinishLanes<kFewLanes>(state, factor, y,
                                            {windows.y_begin + i * windows.lanes, windows.lanes, kNoEnd});
  }
  return count;
}

inline constexpr int kHalfOfFew = kFewLanes / 2;

// Does the same where lanes fill at most half of a vector: those of several windows are put side by side, tap by tap,
// so that vectors are full.
template <class Pooling, class T>
SNUG_INLINE int64_t PoolWindowsTogether(const Pooling& pooling, const TapList& list, const RowOfWindows& windows,
                                        int32_t first_tap, typename Pooling::A factor, const T* x, int64_t x_end, T* y,
                                        int64_t y_end) {
  constexpr int64_t kCopies = 4096;  // elements
  const int64_t pitch = kCopies / list.count();
  const int64_t together = (pitch - kFewLanes) / windows.lanes;  // the last block may reach behind them
  const int64_t x_room = x_end - kHalfOfFew - list[list.count() - 1].at - windows.x_begin;
  if (x_room < 0 || together <= 0) return 0;
  const int64_t count = std::min(windows.count, x_room / windows.x_step + 1);
  alignas(kCacheLine) T copies[kCopies];
  const TapList beside = list.SideBySide(pitch);
  for (int64_t first = 0; first < count; first += together) {
    const int64_t now = std::min(together, count - first);
    for (int64_t t = 0; t < list.count(); ++t) {
      const T* const from = x + (windows.x_begin + first * windows.x_step + list[t].at);
      for (int64_t i = 0; i < now; ++i) {
        std::copy_n(from + i * windows.x_step, kHalfOfFew, copies + (t * pitch + i * windows.lanes));
      }
    }
    ForEachLaneBlock(now * windows.lanes, [&]<int N>(std::integral_constant<int, N>, int64_t lane,
                                                     int64_t lanes) SNUG_LAMBDA {
      typename Pooling::template LaneState<N> state;
      pooling.template BeginLanes<N>(state, first_tap);
      TakeAllTaps<N>(pooling, beside, static_cast<const T*>(copies), lane, state);
      pooling.template FinishLanes<N>(state, factor, y, {windows.y_begin + first * windows.lanes + lane, lanes, y_end});
    });
  }
  return count;
}

template <class Pooling, class T>
SNUG_INLINE int64_t PoolWholeWindows(const Pooling& pooling, const TapList& list, const RowOfWindows& windows,
                                     int32_t first_tap, typename Pooling::A factor, const T* x, int64_t x_end, T* y,
                                     int64_t y_end) {
  if (list.count() == 0) return 0;
  if (windows.lanes <= kHalfOfFew) {
    return PoolWindowsTogether(pooling, list, windows, first_tap, factor, x, x_end, y, y_end);
  }
  return PoolWindowByWindow(pooling, list, windows, first_tap, factor, x, x_end, y, y_end);
}

// The windows of a row that need no care: they do not overlap, lie wholly inside of the row, have no gaps, and their
// lanes are one vector.
struct SideBySide {
  static constexpr int64_t kShares = 1024;  // so many elements are worked out together, for all taps on a row
  static constexpr int kBlock = 64;

  explicit SideBySide(const PoolGeometry& g) {
    const PoolAxis& width = g.axes[2];
    if (width.stride != width.window || width.dilation != 1 || g.lanes > kFewLanes) return;
    pitch = kShares / width.window / kBlock * kBlock;
    together = (pitch - kFewLanes) / g.lanes;
    if (together > 0) windows = WholeWindows(width);
  }
  // Says whether there is room behind the windows' lanes. dy_room and dx_room count elements from the row's first on.
  SNUG_INLINE bool HasRoom(const PoolGeometry& g, int64_t dy_room, int64_t dx_room) const {
    const PoolAxis& width = g.axes[2];
    return width.out * g.lanes + kBlock <= dy_room && (width.in - 1) * g.lanes + kFewLanes <= dx_room;
  }

  IndexRange windows = kNoWindows;
  int64_t pitch = 0;     // how far it is from the shares of one tap to those of the next
  int64_t together = 0;  // shares of so many windows are worked out together
};

// Computes dx for windows side by side. The first has its dy at dy_begin and its elements from dx_begin on; `tap` is
// its first tap on this row. What some windows give to one of their taps is worked out together and only then copied to
// its place, because stores that reach into the next window hold up the loads behind them.
template <class Pooling, class T>
SNUG_INLINE void UnpoolSideBySide(const PoolGeometry& g, const Pooling& pooling, const SideBySide& side_by_side,
                                  const T* dy, int64_t dy_begin, int32_t tap, typename Pooling::A factor, T* dx,
                                  int64_t dx_begin) {
  constexpr int kBlock = SideBySide::kBlock;
  alignas(kCacheLine) T shares[SideBySide::kShares];
  const int64_t window = g.axes[2].window;
  const int64_t pitch = side_by_side.pitch;
  T* to = dx + dx_begin;
  for (int64_t first = 0; first < side_by_side.windows.size(); first += side_by_side.together) {
    const int64_t windows = std::min(side_by_side.together, side_by_side.windows.size() - first);
    const int64_t elements = windows * g.lanes;
    for (int64_t w = 0; w < window; ++w) {
      for (int64_t i = 0; i < elements; i += kBlock) {
        const int64_t lanes = std::min<int64_t>(kBlock, elements - i);
        pooling.template GiveLanes<kBlock>(dy, {dy_begin + first * g.lanes + i, lanes, kNoEnd},
                                           static_cast<int32_t>(tap + w), factor, static_cast<T*>(shares),
                                           {w * pitch + i, lanes, kNoEnd});
      }
    }
    for (int64_t i = 0; i < windows; ++i) {
      for (int64_t w = 0; w < window; ++w, to += g.lanes) {
        std::copy_n(shares + (w * pitch + i * g.lanes), kFewLanes, to);
      }
    }
  }
}

}  // namespace snug::core
