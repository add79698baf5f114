// A Pooling (average, maximum) says what a window does with its elements, for a block of lanes at once: channels where
// the channels lie inside, neighbouring windows along the width in plain storage, so that either loop vectorises.
// Backward, each element of dx is written once, by adding up the windows that cover it in row-major order: nothing is
// scattered, so threads do not meet and the bits do not depend on them.
#include "ops/lib/pool_kernels.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/isa.h"
#include "ops/lib/lanes.h"

namespace snug {
namespace {

constexpr int64_t kBlock = 64;

template <class T>
class AveragePooling {
 public:
  using A = Accumulator<T>;
  struct Block {
    A sum[kBlock];
  };

  AveragePooling(const PoolGeometry& g, bool include_padding) : axes_(g.axes), include_padding_(include_padding) {}

  // Forward: the state of lane j, before anything was taken; taking an element; taking a row of them.
  struct State {
    A sum;
  };
  SNUG_INLINE State Begin(int32_t /*first_tap*/) const { return {A(0)}; }
  SNUG_INLINE State Get(const Block& b, int64_t j) const { return {b.sum[j]}; }
  SNUG_INLINE void Set(Block& b, int64_t j, State s) const { b.sum[j] = s.sum; }
  SNUG_INLINE void Take(State& s, T value, int32_t /*tap*/) const { s.sum += static_cast<A>(value); }
  SNUG_INLINE void TakeRow(State& s, const T* values, int64_t n, int32_t /*tap*/) const {
    if (n < kLanes) {
      for (int64_t i = 0; i < n; ++i) s.sum += static_cast<A>(values[i]);
    } else {
      s.sum += static_cast<A>(LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(values[i]); }));
    }
  }
  SNUG_INLINE void Finish(State s, A factor, T* y, int64_t at) const { y[at] = T(s.sum * factor); }

  // What a window's sum is multiplied by: the product of its axes' factors.
  SNUG_INLINE A Factor(int axis, int64_t o) const {
    const PoolAxis& a = axes_[static_cast<size_t>(axis)];
    return A(1) / static_cast<A>(include_padding_ ? a.padded_taps(o) : a.taps(o).size());
  }

  // Backward: what window `at` gives to the element that is its tap `tap`.
  SNUG_INLINE A Share(const T* dy, int64_t at, int32_t /*tap*/, A factor) const {
    return static_cast<A>(dy[at]) * factor;
  }
  // The same for the window's taps first_tap + t, t in `taps`, which are the elements t * dilation of `sum`.
  SNUG_INLINE void Deal(const T* dy, int64_t at, int32_t /*first_tap*/, IndexRange taps, int64_t dilation, A factor,
                        A* sum) const {
    const A share = static_cast<A>(dy[at]) * factor;
    for (int64_t t = taps.begin; t < taps.end; ++t) sum[t * dilation] += share;
  }

 private:
  std::array<PoolAxis, 3> axes_;
  bool include_padding_;
};

// The first maximum in row-major order; NaN is above everything. Index: what the tap of each maximum is stored in;
// void: it is not.
template <class T, class Index>
class MaximumPooling {
 public:
  using A = Accumulator<T>;
  struct Block {
    A best[kBlock];
    int32_t tap[kBlock];
  };
  // Written forward; backward, read (and const).
  using IndexPointer = std::conditional_t<std::is_void_v<Index>, std::nullptr_t, Index*>;

  explicit MaximumPooling(IndexPointer index) : index_(index) {}

  struct State {
    A best;
    int32_t tap;
  };
  SNUG_INLINE State Begin(int32_t first_tap) const { return {-std::numeric_limits<A>::infinity(), first_tap}; }
  SNUG_INLINE State Get(const Block& b, int64_t j) const { return {b.best[j], b.tap[j]}; }
  SNUG_INLINE void Set(Block& b, int64_t j, State s) const {
    b.best[j] = s.best;
    b.tap[j] = s.tap;
  }
  SNUG_INLINE void Take(State& s, T value, int32_t tap) const {
    const A v = static_cast<A>(value);
    const bool better = (v > s.best) | (v != v);
    s.best = better ? v : s.best;
    s.tap = better ? tap : s.tap;
  }
  SNUG_INLINE void TakeRow(State& s, const T* values, int64_t n, int32_t tap) const {
    for (int64_t i = 0; i < n; ++i) Take(s, values[i], tap + static_cast<int32_t>(i));
  }
  SNUG_INLINE void Finish(State s, A /*factor*/, T* y, int64_t at) const {
    y[at] = T(s.best);
    if constexpr (!std::is_void_v<Index> && !std::is_const_v<Index>) index_[at] = static_cast<Index>(s.tap);
  }
  SNUG_INLINE A Factor(int /*axis*/, int64_t /*o*/) const { return A(1); }
  SNUG_INLINE A Share(const T* dy, int64_t at, int32_t tap, A /*factor*/) const {
    const A value = static_cast<A>(dy[at]);  // loaded in any case: a load under a condition does not vectorise
    const int32_t found = index_[at];
    return found == tap ? value : A(0);
  }
  SNUG_INLINE void Deal(const T* dy, int64_t at, int32_t first_tap, IndexRange taps, int64_t dilation, A /*factor*/,
                        A* sum) const {
    const int64_t t = index_[at] - first_tap;
    if (t >= taps.begin && t < taps.end) sum[t * dilation] += static_cast<A>(dy[at]);
  }

 private:
  IndexPointer index_;
};

// A row of the output (forward) or input (backward): (sample or channel, depth, height).
struct PoolRow {
  int64_t outer, d, h;
  PoolRow(int64_t row, int64_t depth, int64_t height)
      : outer(row / height / depth), d(row / height % depth), h(row % height) {}
};

// kTaps neighbouring taps of `lanes` windows at once: element k of lane j is x[k * tap_stride + j * lane_stride].
template <int kTaps, class Pooling, class T>
SNUG_INLINE void TakeTaps(const Pooling& pooling, typename Pooling::Block& block, int64_t begin, int64_t end,
                          const T* x, int64_t lane_stride, int64_t tap_stride, int32_t tap) {
  for (int64_t j = begin; j < end; ++j) {
    auto state = pooling.Get(block, j);
    const T* element = x + j * lane_stride;
    pooling.Take(state, element[0], tap);
    if constexpr (kTaps > 1) pooling.Take(state, element[tap_stride], tap + 1);
    if constexpr (kTaps > 2) pooling.Take(state, element[2 * tap_stride], tap + 2);
    pooling.Set(block, j, state);
  }
}

// y[window][channels] for the windows of one row.
template <class Pooling, class T>
SNUG_INLINE void PoolRowLanes(const PoolGeometry& g, const Pooling& pooling, int64_t row, const T* x, T* y) {
  const auto& [depth, height, width] = g.axes;
  const PoolRow at(row, depth.out, height.out);
  const IndexRange kd = depth.taps(at.d);
  const IndexRange kh = height.taps(at.h);
  const auto row_factor = pooling.Factor(0, at.d) * pooling.Factor(1, at.h);
  const int64_t step = width.dilation * g.lanes;
  for (int64_t ow = 0; ow < width.out; ++ow) {
    const IndexRange kw = width.taps(ow);
    const auto factor = row_factor * pooling.Factor(2, ow);
    const auto first_tap = static_cast<int32_t>((kd.begin * height.window + kh.begin) * width.window + kw.begin);
    for (int64_t lane = 0; lane < g.lanes; lane += kBlock) {
      const int64_t lanes = std::min(kBlock, g.lanes - lane);
      typename Pooling::Block block;
      for (int64_t j = 0; j < lanes; ++j) pooling.Set(block, j, pooling.Begin(first_tap));
      for (int64_t d = kd.begin; d < kd.end; ++d) {
        const int64_t plane = at.outer * depth.in + depth.start(at.d) + d * depth.dilation;
        for (int64_t h = kh.begin; h < kh.end; ++h) {
          const int64_t line = plane * height.in + height.start(at.h) + h * height.dilation;
          const T* from = x + (line * width.in + width.start(ow)) * g.lanes + lane;
          const auto tap = static_cast<int32_t>((d * height.window + h) * width.window);
          int64_t w = kw.begin;
          for (; w + 3 <= kw.end; w += 3) {
            TakeTaps<3>(pooling, block, 0, lanes, from + w * step, 1, step, tap + static_cast<int32_t>(w));
          }
          for (; w + 2 <= kw.end; w += 2) {
            TakeTaps<2>(pooling, block, 0, lanes, from + w * step, 1, step, tap + static_cast<int32_t>(w));
          }
          if (w < kw.end) {
            TakeTaps<1>(pooling, block, 0, lanes, from + w * step, 1, step, tap + static_cast<int32_t>(w));
          }
        }
      }
      const int64_t to = (row * width.out + ow) * g.lanes + lane;
      SNUG_INDEPENDENT
      for (int64_t j = 0; j < lanes; ++j) pooling.Finish(pooling.Get(block, j), factor, y, to + j);
    }
  }
}

// y[window] for the windows of one row in plain storage.
template <class Pooling, class T>
SNUG_INLINE void PoolRowPlain(const PoolGeometry& g, const Pooling& pooling, int64_t row, const T* x, T* y) {
  const auto& [depth, height, width] = g.axes;
  const PoolRow at(row, depth.out, height.out);
  const IndexRange kd = depth.taps(at.d);
  const IndexRange kh = height.taps(at.h);
  const auto row_factor = pooling.Factor(0, at.d) * pooling.Factor(1, at.h);
  for (int64_t first = 0; first < width.out; first += kBlock) {
    const int64_t windows = std::min(kBlock, width.out - first);
    typename Pooling::Block block;
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
          // The windows whose tap w is inside: 0 <= o * stride - pad + w * dilation < in.
          const int64_t before = width.pad_begin - w * width.dilation;
          const int64_t begin = std::max(first, before <= 0 ? 0 : (before + width.stride - 1) / width.stride);
          const int64_t last = width.in - 1 + before;
          const int64_t end = std::min(first + windows, last < 0 ? 0 : last / width.stride + 1);
          const T* element = line - before + first * width.stride;
          const auto t = tap + static_cast<int32_t>(w);
          // Constant strides vectorise.
          if (width.stride == 1) {
            TakeTaps<1>(pooling, block, begin - first, end - first, element, 1, 0, t);
          } else if (width.stride == 2) {
            TakeTaps<1>(pooling, block, begin - first, end - first, element, 2, 0, t);
          } else {
            TakeTaps<1>(pooling, block, begin - first, end - first, element, width.stride, 0, t);
          }
        }
      }
    }
    for (int64_t j = 0; j < windows; ++j) {
      pooling.Finish(pooling.Get(block, j), row_factor * pooling.Factor(2, first + j), y, row * width.out + first + j);
    }
  }
}

// A window over an element: where its dy lies, which of its taps the element is, and its factor.
template <class A>
struct Cover {
  int64_t at;
  int32_t tap;
  A factor;
};

constexpr int kCoversAtOnce = 4;

// to[lane] = the shares of `count` covers, added to `sum` if there is one.
template <class Pooling, class T, class A, class Out>
SNUG_INLINE void AddShares(const Pooling& pooling, const Cover<A>* covers, int count, int64_t lanes, const T* dy,
                           const A* sum, Out* to) {
  const auto add = [&](auto covers_at_once) SNUG_LAMBDA {
    constexpr int kCount = decltype(covers_at_once)::value;
    const Cover<A> a = covers[0];
    const Cover<A> b = covers[kCount > 1 ? 1 : 0];
    const Cover<A> c = covers[kCount > 2 ? 2 : 0];
    const Cover<A> d = covers[kCount > 3 ? 3 : 0];
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < lanes; ++j) {
      A share = pooling.Share(dy, a.at + j, a.tap, a.factor);
      if (sum != nullptr) share = sum[j] + share;
      if constexpr (kCount > 1) share += pooling.Share(dy, b.at + j, b.tap, b.factor);
      if constexpr (kCount > 2) share += pooling.Share(dy, c.at + j, c.tap, c.factor);
      if constexpr (kCount > 3) share += pooling.Share(dy, d.at + j, d.tap, d.factor);
      to[j] = Out(share);
    }
  };
  switch (count) {
    case 1:
      return add(std::integral_constant<int, 1>());
    case 2:
      return add(std::integral_constant<int, 2>());
    case 3:
      return add(std::integral_constant<int, 3>());
    default:
      return add(std::integral_constant<int, kCoversAtOnce>());
  }
}

// dx[element][channels] for the elements of one row. As a rule few windows cover an element: their shares go straight
// to dx, for all channels at once.
template <class Pooling, class T>
SNUG_INLINE void UnpoolRowLanes(const PoolGeometry& g, const Pooling& pooling, int64_t row, const T* dy, T* dx) {
  using A = Accumulator<T>;
  const auto& [depth, height, width] = g.axes;
  const PoolRow at(row, depth.in, height.in);
  const IndexRange od = depth.windows(at.d);
  const IndexRange oh = height.windows(at.h);
  for (int64_t iw = 0; iw < width.in; ++iw) {
    const IndexRange ow = width.windows(iw);
    const bool few = od.size() * oh.size() * ow.size() <= kCoversAtOnce;
    const int64_t block = few ? g.lanes : kBlock;
    for (int64_t lane = 0; lane < g.lanes; lane += block) {
      const int64_t lanes = std::min(block, g.lanes - lane);
      T* to = dx + (row * width.in + iw) * g.lanes + lane;
      A sum[kBlock];
      bool summed = false;
      Cover<A> covers[kCoversAtOnce];
      int count = 0;
      for (int64_t d = od.begin; d < od.end; ++d) {
        const int64_t tap_d = depth.tap(d, at.d);
        if (tap_d < 0) continue;
        for (int64_t h = oh.begin; h < oh.end; ++h) {
          const int64_t tap_h = height.tap(h, at.h);
          if (tap_h < 0) continue;
          const A row_factor = pooling.Factor(0, d) * pooling.Factor(1, h);
          const int64_t line = (at.outer * depth.out + d) * height.out + h;
          for (int64_t w = ow.begin; w < ow.end; ++w) {
            const int64_t tap_w = width.tap(w, iw);
            if (tap_w < 0) continue;
            if (count == kCoversAtOnce) {
              AddShares(pooling, covers, count, lanes, dy, summed ? sum : nullptr, sum);
              summed = true;
              count = 0;
            }
            covers[count++] = {.at = (line * width.out + w) * g.lanes + lane,
                               .tap = static_cast<int32_t>((tap_d * height.window + tap_h) * width.window + tap_w),
                               .factor = row_factor * pooling.Factor(2, w)};
          }
        }
      }
      if (count > 0) {
        AddShares(pooling, covers, count, lanes, dy, summed ? sum : nullptr, to);
      } else {
        std::fill(to, to + lanes, T(0));
      }
    }
  }
}

// dx[element] for the elements of one row in plain storage: each window that reaches into a piece of the row deals out
// its gradient there.
template <class Pooling, class T>
SNUG_INLINE void UnpoolRowPlain(const PoolGeometry& g, const Pooling& pooling, int64_t row, const T* dy, T* dx) {
  using A = Accumulator<T>;
  constexpr int64_t kPiece = 256;
  const auto& [depth, height, width] = g.axes;
  const PoolRow at(row, depth.in, height.in);
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
          IndexRange taps = width.taps(w);  // of those, the ones in this piece
          while (taps.begin < taps.end && start + taps.begin * width.dilation < 0) ++taps.begin;
          while (taps.begin < taps.end && start + (taps.end - 1) * width.dilation >= elements) --taps.end;
          pooling.Deal(dy, line + w, tap, taps, width.dilation, factor, sum + start);
        }
      }
    }
    T* to = dx + row * width.in + first;
    for (int64_t j = 0; j < elements; ++j) to[j] = T(sum[j]);
  }
}

constexpr int64_t kChunk = 1 << 15;  // elements: a thread's least piece of work

// Geometry and pooling are copied into each piece of work: the compiler then sees that no store changes them.
template <class Pooling, class T>
void Pool(int threads, const PoolGeometry& geometry, const Pooling& pooling, const T* x, T* y) {
  const int64_t rows = geometry.outer * geometry.axes[0].out * geometry.axes[1].out;
  const int64_t reads = std::max(geometry.outputs(), geometry.inputs()) * geometry.outer * geometry.lanes;
  ParallelFor(threads, rows, std::max<int64_t>(1, kChunk * rows / reads), [&](int64_t begin, int64_t end) {
    WithIsa([begin, end, x, y, g = geometry, p = pooling]() SNUG_LAMBDA {
      for (int64_t row = begin; row < end; ++row) {
        if (g.lanes > 1) {
          PoolRowLanes(g, p, row, x, y);
        } else {
          PoolRowPlain(g, p, row, x, y);
        }
      }
    });
  });
}

template <class Pooling, class T>
void Unpool(int threads, const PoolGeometry& geometry, const Pooling& pooling, const T* dy, T* dx) {
  const int64_t rows = geometry.outer * geometry.axes[0].in * geometry.axes[1].in;
  const int64_t row_size = geometry.axes[2].in * geometry.lanes;
  ParallelFor(threads, rows, std::max<int64_t>(1, kChunk / row_size), [&](int64_t begin, int64_t end) {
    WithIsa([begin, end, dy, dx, g = geometry, p = pooling]() SNUG_LAMBDA {
      for (int64_t row = begin; row < end; ++row) {
        if (g.lanes > 1) {
          UnpoolRowLanes(g, p, row, dy, dx);
        } else {
          UnpoolRowPlain(g, p, row, dy, dx);
        }
      }
    });
  });
}

// fn(an element of g's index type).
template <class Fn>
absl::Status WithIndex(const PoolGeometry& g, const Fn& fn) {
  return g.index_type() == DType::kUint8 ? fn(uint8_t{}) : fn(int32_t{});
}

}  // namespace

absl::Status AveragePool(const KernelContext& k, const PoolGeometry& g, bool include_padding) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Pool(k.threads(), g, AveragePooling<T>(g, include_padding), k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

absl::Status AverageUnpool(const KernelContext& k, const PoolGeometry& g, bool include_padding) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Unpool(k.threads(), g, AveragePooling<T>(g, include_padding), k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

absl::Status MaximumPool(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (k.num_outputs() == 1) {
      Pool(k.threads(), g, MaximumPooling<T, void>(nullptr), k.input<T>(0), k.output<T>(0));
      return absl::OkStatus();
    }
    return WithIndex(g, [&](auto none) {
      using Index = decltype(none);
      Pool(k.threads(), g, MaximumPooling<T, Index>(k.output<Index>(1)), k.input<T>(0), k.output<T>(0));
      return absl::OkStatus();
    });
  });
}

absl::Status MaximumUnpool(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return WithIndex(g, [&](auto none) {
      using Index = const decltype(none);
      Unpool(k.threads(), g, MaximumPooling<T, Index>(k.input<Index>(0)), k.input<T>(1), k.output<T>(0));
      return absl::OkStatus();
    });
  });
}

}  // namespace snug
