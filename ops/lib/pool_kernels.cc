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

  // Forward.
  SNUG_INLINE void Begin(Block& b, int64_t lanes) const {
    for (int64_t j = 0; j < lanes; ++j) b.sum[j] = 0;
  }
  SNUG_INLINE void Take(Block& b, int64_t j, T value, int32_t /*tap*/) const { b.sum[j] += static_cast<A>(value); }
  SNUG_INLINE void TakeRow(Block& b, int64_t j, const T* values, int64_t n, int32_t /*tap*/) const {
    b.sum[j] += static_cast<A>(LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(values[i]); }));
  }
  SNUG_INLINE void Finish(const Block& b, int64_t j, A scale, T* y, int64_t at) const { y[at] = T(b.sum[j] * scale); }

  // What a window's sum is multiplied by: the product of its axes' factors.
  SNUG_INLINE A Factor(int axis, int64_t o) const {
    const PoolAxis& a = axes_[static_cast<size_t>(axis)];
    return A(1) / static_cast<A>(include_padding_ ? a.padded_taps(o) : a.taps(o).size());
  }

  // Backward: what window `at` gives to the element that is its tap `tap`.
  SNUG_INLINE A Share(const T* dy, int64_t at, int32_t /*tap*/, A scale) const {
    return static_cast<A>(dy[at]) * scale;
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

  SNUG_INLINE void Begin(Block& b, int64_t lanes) const {
    for (int64_t j = 0; j < lanes; ++j) {
      b.best[j] = -std::numeric_limits<A>::infinity();
      b.tap[j] = -1;
    }
  }
  SNUG_INLINE void Take(Block& b, int64_t j, T value, int32_t tap) const {
    const A v = static_cast<A>(value);
    const bool better = (v > b.best[j]) | (v != v) | (b.tap[j] < 0);
    b.best[j] = better ? v : b.best[j];
    b.tap[j] = better ? tap : b.tap[j];
  }
  SNUG_INLINE void TakeRow(Block& b, int64_t j, const T* values, int64_t n, int32_t tap) const {
    for (int64_t i = 0; i < n; ++i) Take(b, j, values[i], tap + static_cast<int32_t>(i));
  }
  SNUG_INLINE void Finish(const Block& b, int64_t j, A /*scale*/, T* y, int64_t at) const {
    y[at] = T(b.best[j]);
    if constexpr (!std::is_void_v<Index> && !std::is_const_v<Index>) index_[at] = static_cast<Index>(b.tap[j]);
  }
  SNUG_INLINE A Factor(int /*axis*/, int64_t /*o*/) const { return A(1); }
  SNUG_INLINE A Share(const T* dy, int64_t at, int32_t tap, A /*scale*/) const {
    return index_[at] == static_cast<Index>(tap) ? static_cast<A>(dy[at]) : A(0);
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

// y[window][channels] for the windows of one row.
template <class Pooling, class T>
SNUG_INLINE void PoolRowLanes(const PoolGeometry& g, const Pooling& pooling, int64_t row, const T* x, T* y) {
  const auto& [depth, height, width] = g.axes;
  const PoolRow at(row, depth.out, height.out);
  const IndexRange kd = depth.taps(at.d);
  const IndexRange kh = height.taps(at.h);
  const auto row_factor = pooling.Factor(0, at.d) * pooling.Factor(1, at.h);
  for (int64_t ow = 0; ow < width.out; ++ow) {
    const IndexRange kw = width.taps(ow);
    const auto factor = row_factor * pooling.Factor(2, ow);
    for (int64_t lane = 0; lane < g.lanes; lane += kBlock) {
      const int64_t lanes = std::min(kBlock, g.lanes - lane);
      typename Pooling::Block block;
      pooling.Begin(block, lanes);
      for (int64_t d = kd.begin; d < kd.end; ++d) {
        const int64_t plane = at.outer * depth.in + depth.start(at.d) + d * depth.dilation;
        for (int64_t h = kh.begin; h < kh.end; ++h) {
          const int64_t line = plane * height.in + height.start(at.h) + h * height.dilation;
          const T* from = x + (line * width.in + width.start(ow)) * g.lanes + lane;
          for (int64_t w = kw.begin; w < kw.end; ++w) {
            const auto tap = static_cast<int32_t>((d * height.window + h) * width.window + w);
            const T* element = from + w * width.dilation * g.lanes;
            for (int64_t j = 0; j < lanes; ++j) pooling.Take(block, j, element[j], tap);
          }
        }
      }
      const int64_t to = (row * width.out + ow) * g.lanes + lane;
      for (int64_t j = 0; j < lanes; ++j) pooling.Finish(block, j, factor, y, to + j);
    }
  }
}

// Tap `w` of the windows [begin, end) along the width; `line` is a line of the input. kStride 0: any.
template <int64_t kStride, class Pooling, class T>
SNUG_INLINE void TakeTap(const PoolAxis& width, const Pooling& pooling, typename Pooling::Block& block, int64_t first,
                         int64_t begin, int64_t end, const T* line, int64_t w, int32_t tap) {
  const int64_t stride = kStride > 0 ? kStride : width.stride;
  const T* element = line + w * width.dilation - width.pad_begin + first * stride;
  for (int64_t j = begin - first; j < end - first; ++j) pooling.Take(block, j, element[j * stride], tap);
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
    pooling.Begin(block, windows);
    for (int64_t d = kd.begin; d < kd.end; ++d) {
      const int64_t plane = at.outer * depth.in + depth.start(at.d) + d * depth.dilation;
      for (int64_t h = kh.begin; h < kh.end; ++h) {
        const T* line = x + (plane * height.in + height.start(at.h) + h * height.dilation) * width.in;
        const auto tap = static_cast<int32_t>((d * height.window + h) * width.window);
        if (width.adaptive) {
          for (int64_t j = 0; j < windows; ++j) {
            pooling.TakeRow(block, j, line + width.start(first + j), width.taps(first + j).size(), tap);
          }
          continue;
        }
        for (int64_t w = 0; w < width.window; ++w) {
          // The windows whose tap w is inside: 0 <= o * stride - pad + w * dilation < in.
          const int64_t before = width.pad_begin - w * width.dilation;
          const int64_t begin = std::max(first, before <= 0 ? 0 : (before + width.stride - 1) / width.stride);
          const int64_t last = width.in - 1 + before;
          const int64_t end = std::min(first + windows, last < 0 ? 0 : last / width.stride + 1);
          const auto t = tap + static_cast<int32_t>(w);
          if (width.stride == 1) {
            TakeTap<1>(width, pooling, block, first, begin, end, line, w, t);
          } else if (width.stride == 2) {
            TakeTap<2>(width, pooling, block, first, begin, end, line, w, t);
          } else {
            TakeTap<0>(width, pooling, block, first, begin, end, line, w, t);
          }
        }
      }
    }
    for (int64_t j = 0; j < windows; ++j) {
      pooling.Finish(block, j, row_factor * pooling.Factor(2, first + j), y, row * width.out + first + j);
    }
  }
}

// dx[element][channels] for the elements of one row.
template <class Pooling, class T>
SNUG_INLINE void UnpoolRowLanes(const PoolGeometry& g, const Pooling& pooling, int64_t row, const T* dy, T* dx) {
  using A = Accumulator<T>;
  const auto& [depth, height, width] = g.axes;
  const PoolRow at(row, depth.in, height.in);
  const IndexRange od = depth.windows(at.d);
  const IndexRange oh = height.windows(at.h);
  for (int64_t iw = 0; iw < width.in; ++iw) {
    const IndexRange ow = width.windows(iw);
    for (int64_t lane = 0; lane < g.lanes; lane += kBlock) {
      const int64_t lanes = std::min(kBlock, g.lanes - lane);
      A sum[kBlock];
      for (int64_t j = 0; j < lanes; ++j) sum[j] = 0;
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
            const auto tap = static_cast<int32_t>((tap_d * height.window + tap_h) * width.window + tap_w);
            const A factor = row_factor * pooling.Factor(2, w);
            const int64_t from = (line * width.out + w) * g.lanes + lane;
            for (int64_t j = 0; j < lanes; ++j) sum[j] += pooling.Share(dy, from + j, tap, factor);
          }
        }
      }
      T* to = dx + (row * width.in + iw) * g.lanes + lane;
      for (int64_t j = 0; j < lanes; ++j) to[j] = T(sum[j]);
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
          const IndexRange taps = width.taps(w);
          const int64_t start = width.start(w) - first;
          for (int64_t t = taps.begin; t < taps.end; ++t) {
            const int64_t j = start + t * width.dilation;
            if (j < 0 || j >= elements) continue;
            sum[j] += pooling.Share(dy, line + w, tap + static_cast<int32_t>(t), factor);
          }
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
