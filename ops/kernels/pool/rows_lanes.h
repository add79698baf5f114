// Pools a row in channels-last storage, many channels at a time. Where fewer channels are left, a vector reaches over
// into the next window, which is done later and overwrites what it left there (Reach).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/kernels/pool/pooling.h"
#include "ops/kernels/pool/rows_few_lanes.h"
#include "ops/kernels/pool/taps.h"

namespace snug::core {

// Computes y[window][channels] for the windows of one row; `whole` are its WholeWindows. Rows are done in ascending
// order; the caller owns those before `end_row`.
template <class Pooling, class T>
SNUG_INLINE void PoolRowLanes(const PoolGeometry& g, const Pooling& pooling, const PoolRow& at, IndexRange whole,
                              int64_t end_row, const T* x, T* y) {
  const PoolAxis& depth = g.axes[0];
  const PoolAxis& height = g.axes[1];
  const PoolAxis& width = g.axes[2];
  const IndexRange kd = depth.taps(at.d);
  const IndexRange kh = height.taps(at.h);
  const auto row_factor = pooling.Factor(0, at.d) * pooling.Factor(1, at.h);
  const int64_t x_end = g.outer * g.inputs() * g.lanes;
  const int64_t y_end = end_row * width.out * g.lanes;
  static_assert(TapList::kMost <= 255, "windows that kMayHaveFewTaps excludes would have few taps");
  const bool few = Pooling::kMayHaveFewTaps && g.window() <= TapList::kMost;
  TapList list;
  for (int64_t ow = 0; ow < width.out;) {
    const IndexRange kw = width.taps(ow);
    const auto factor = row_factor * pooling.Factor(2, ow);
    const auto first_tap = static_cast<int32_t>((kd.begin * height.window + kh.begin) * width.window + kw.begin);
    const int64_t x_begin = width.start(ow) * g.lanes;
    const int64_t y_begin = (at.index * width.out + ow) * g.lanes;
    int64_t windows = 1;
    if (few) {
      list.Find(g, at, kd, kh, kw);
      if (ow == whole.begin && width.stride == 1) {
        windows =
            whole.size();  // of all of them, the lanes of a tap lie one behind the other, as those of one window do
      } else if (ow == whole.begin && g.lanes <= kFewLanes) {
        const RowOfWindows row = {.count = whole.size(),
                                  .lanes = g.lanes,
                                  .x_begin = x_begin,
                                  .x_step = width.stride * g.lanes,
                                  .y_begin = y_begin};
        const int64_t done = PoolWholeWindows(pooling, list, row, first_tap, factor, x, x_end, y, y_end);
        if (done > 0) {
          ow += done;
          continue;
        }
      }
    }
    ForEachLaneBlock(windows * g.lanes,
                     [&]<int N>(std::integral_constant<int, N>, int64_t lane, int64_t lanes) SNUG_LAMBDA {
                       typename Pooling::template LaneState<N> state;
                       pooling.template BeginLanes<N>(state, first_tap);
                       const int64_t start = x_begin + lane;
                       if (few && (list.count() == 0 || start + list[list.count() - 1].at + N <= x_end)) {
                         TakeAllTaps<N>(pooling, list, x, start, state);
                       } else {
                         ForEachTap(g, at, kd, kh, kw, [&](WindowTap tap) SNUG_LAMBDA {
                           ReadReach<N>(x, {start + tap.at, lanes, x_end}, [&](const T* values) SNUG_LAMBDA {
                             pooling.template TakeLanes<N, 1>(state, {values}, {tap.tap});
                           });
                         });
                       }
                       pooling.template FinishLanes<N>(state, factor, y, {y_begin + lane, lanes, y_end});
                     });
    ow += windows;
  }
}

// A window that covers an element: where its dy lies, which of its taps the element is, and its factor.
template <class A>
struct Cover {
  int64_t at;
  int32_t tap;
  A factor;
};

// Calls fn(cover) for the windows that cover one element, in row-major order.
template <class Pooling, class Fn>
SNUG_INLINE void ForEachCover(const PoolGeometry& g, const Pooling& pooling, const PoolRow& at, int64_t iw, Fn fn) {
  const PoolAxis& depth = g.axes[0];
  const PoolAxis& height = g.axes[1];
  const PoolAxis& width = g.axes[2];
  const IndexRange od = depth.windows(at.d);
  const IndexRange oh = height.windows(at.h);
  const IndexRange ow = width.windows(iw);
  for (int64_t d = od.begin; d < od.end; ++d) {
    const int64_t tap_d = depth.tap(d, at.d);
    if (tap_d < 0) continue;
    for (int64_t h = oh.begin; h < oh.end; ++h) {
      const int64_t tap_h = height.tap(h, at.h);
      if (tap_h < 0) continue;
      const auto row_factor = pooling.Factor(0, d) * pooling.Factor(1, h);
      const int64_t line = (at.outer * depth.out + d) * height.out + h;
      for (int64_t w = ow.begin; w < ow.end; ++w) {
        const int64_t tap_w = width.tap(w, iw);
        if (tap_w < 0) continue;
        fn(Cover<typename Pooling::A>{
            .at = (line * width.out + w) * g.lanes,
            .tap = static_cast<int32_t>((tap_d * height.window + tap_h) * width.window + tap_w),
            .factor = row_factor * pooling.Factor(2, w)});
      }
    }
  }
}

// The windows that cover an element, if they are few. They are found once for all its lanes, and for the elements
// around which all is alike.
template <class A>
class CoverList {
 public:
  static constexpr int64_t kMost = 64;

  template <class Pooling>
  SNUG_INLINE void Find(const PoolGeometry& g, const Pooling& pooling, const PoolRow& at, int64_t iw) {
    count_ = 0;
    ForEachCover(g, pooling, at, iw, [&](const Cover<A>& cover) SNUG_LAMBDA { covers_[count_++] = cover; });
  }
  SNUG_INLINE int64_t count() const { return count_; }
  SNUG_INLINE const Cover<A>& operator[](int64_t i) const { return covers_[i]; }

 private:
  int64_t count_ = 0;
  Cover<A> covers_[kMost];
};

// Adds the shares of K covers, from the i-th on, whose lanes begin `shift` behind those that the list says.
template <int N, int K, class Pooling, class T>
SNUG_INLINE void AddShares(const Pooling& pooling, const CoverList<Accumulator<T>>& list, int64_t i, int64_t shift,
                           const T* dy, Accumulator<T>* sum) {
  std::array<int64_t, K> from;
  std::array<int32_t, K> taps;
  std::array<Accumulator<T>, K> factors;
  for (int64_t k = 0; k < K; ++k) {
    from[static_cast<size_t>(k)] = list[i + k].at + shift;
    taps[static_cast<size_t>(k)] = list[i + k].tap;
    factors[static_cast<size_t>(k)] = list[i + k].factor;
  }
  pooling.template AddSharesLanes<N, K>(sum, dy, from, taps, factors);
}

template <int N, class Pooling, class T>
SNUG_INLINE void AddAllShares(const Pooling& pooling, const CoverList<Accumulator<T>>& list, int64_t shift, const T* dy,
                              Accumulator<T>* sum) {
  int64_t i = 0;
  for (; i + 4 <= list.count(); i += 4) AddShares<N, 4>(pooling, list, i, shift, dy, sum);
  for (; i + 2 <= list.count(); i += 2) AddShares<N, 2>(pooling, list, i, shift, dy, sum);
  if (i < list.count()) AddShares<N, 1>(pooling, list, i, shift, dy, sum);
}

template <int N, class T, class A>
SNUG_INLINE void StoreSum(T* dx, Reach at, const A* sum) {
  WriteReach<N>(dx, at, [&](T* values) SNUG_LAMBDA {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < N; ++j) values[j] = T(sum[j]);
  });
}

// Returns the elements of a row in whose windows no tap and no window next to them is missing. Going on by one stride,
// their covers are the same, one window further.
SNUG_INLINE IndexRange InnerElements(const PoolAxis& width) {
  const IndexRange whole = WholeWindows(width);
  const int64_t begin = (width.window - 1) * width.dilation;
  const int64_t end = std::min(width.in, whole.end * width.stride - width.pad_begin);
  return whole.size() > 0 && begin < end ? IndexRange{begin, end} : IndexRange{0, 0};
}

// Computes dx[element][channels] for the elements of one row. The caller owns the rows before `end_row`.
template <class Pooling, class T>
SNUG_INLINE void UnpoolRowLanes(const PoolGeometry& g, const Pooling& pooling, const PoolRow& at, IndexRange inner,
                                int64_t end_row, const T* dy, T* dx) {
  using A = Accumulator<T>;
  constexpr int64_t kPhases = 2;
  const PoolAxis& depth = g.axes[0];
  const PoolAxis& height = g.axes[1];
  const PoolAxis& width = g.axes[2];
  const int64_t dy_end = g.outer * g.outputs() * g.lanes;
  const int64_t dx_end = end_row * width.in * g.lanes;
  const bool few =
      depth.windows(at.d).size() * height.windows(at.h).size() * width.most_windows() <= CoverList<A>::kMost;
  const bool in_phases = few && width.stride <= kPhases;
  CoverList<A> lists[kPhases];
  for (int64_t iw = 0; iw < width.in;) {
    const bool inside = in_phases && iw >= inner.begin && iw < inner.end;
    const int64_t ahead = inside ? iw - inner.begin : 0;
    CoverList<A>& list = lists[ahead & (width.stride - 1)];
    const int64_t strides = width.stride == 1 ? ahead : ahead / kPhases;
    if (few && strides == 0) list.Find(g, pooling, at, iw);
    // With a stride of 1, the lanes of a cover lie one behind the other for all these elements.
    const int64_t elements = inside && width.stride == 1 ? inner.end - iw : 1;
    ForEachLaneBlock(
        elements * g.lanes, [&]<int N>(std::integral_constant<int, N>, int64_t lane, int64_t lanes) SNUG_LAMBDA {
          alignas(kCacheLine) A sum[N] = {};
          const int64_t shift = strides * g.lanes + lane;
          if (few && (list.count() == 0 || list[list.count() - 1].at + shift + N <= dy_end)) {
            AddAllShares<N>(pooling, list, shift, dy, sum);
          } else {
            const auto add = [&](const Cover<A>& cover) SNUG_LAMBDA {
              pooling.template AddShareLanes<N>(sum, dy, {cover.at + shift, lanes, dy_end}, cover.tap, cover.factor);
            };
            if (few) {
              for (int64_t i = 0; i < list.count(); ++i) add(list[i]);
            } else {
              ForEachCover(g, pooling, at, iw, add);
            }
          }
          StoreSum<N>(dx, {(at.index * width.in + iw) * g.lanes + lane, lanes, dx_end}, sum);
        });
    iw += elements;
  }
}

// Does the same, window by window, where no element has two windows (kernel <= stride, no dilation).
template <class Pooling, class T>
SNUG_INLINE void UnpoolTileRowLanes(const PoolGeometry& g, const Pooling& pooling, const PoolRow& at,
                                    const SideBySide& side_by_side, int64_t end_row, const T* dy, T* dx) {
  const PoolAxis& depth = g.axes[0];
  const PoolAxis& height = g.axes[1];
  const PoolAxis& width = g.axes[2];
  T* to = dx + at.index * width.in * g.lanes;
  const IndexRange od = depth.windows(at.d);
  const IndexRange oh = height.windows(at.h);
  if (od.size() == 0 || oh.size() == 0) {
    std::fill(to, to + width.in * g.lanes, T(0));
    return;
  }
  const int64_t line = (at.outer * depth.out + od.begin) * height.out + oh.begin;
  const int64_t tap = (depth.tap(od.begin, at.d) * height.window + height.tap(oh.begin, at.h)) * width.window;
  const auto row_factor = pooling.Factor(0, od.begin) * pooling.Factor(1, oh.begin);
  const int64_t dy_end = g.outer * g.outputs() * g.lanes;
  const int64_t dx_end = end_row * width.in * g.lanes;
  const auto begin_of = [&](int64_t ow) SNUG_LAMBDA { return (line * width.out + ow) * g.lanes; };
  const bool room = side_by_side.HasRoom(g, dy_end - begin_of(0), dx_end - at.index * width.in * g.lanes);
  int64_t done = 0;  // how many elements of the row
  for (int64_t ow = 0; ow < width.out; ++ow) {
    const IndexRange kw = width.taps(ow);
    const int64_t start = width.start(ow);
    std::fill(to + done * g.lanes, to + (start + kw.begin) * g.lanes, T(0));
    if (ow == side_by_side.windows.begin && room) {
      UnpoolSideBySide(g, pooling, side_by_side, dy, begin_of(ow), static_cast<int32_t>(tap),
                       row_factor * pooling.Factor(2, ow), dx, (at.index * width.in + start) * g.lanes);
      ow = side_by_side.windows.end - 1;
      done = width.start(ow) + width.window;
      continue;
    }
    done = start + kw.end;
    const auto factor = row_factor * pooling.Factor(2, ow);
    for (int64_t w = kw.begin; w < kw.end; ++w) {
      ForEachLaneBlock(g.lanes, [&]<int N>(std::integral_constant<int, N>, int64_t lane, int64_t lanes) SNUG_LAMBDA {
        const Reach share = {(at.index * width.in + start + w) * g.lanes + lane, lanes, dx_end};
        pooling.template GiveLanes<N>(dy, {begin_of(ow) + lane, lanes, dy_end}, static_cast<int32_t>(tap + w), factor,
                                      dx, share);
      });
    }
  }
  std::fill(to + done * g.lanes, to + width.in * g.lanes, T(0));
}

}  // namespace snug::core
