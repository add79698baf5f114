// A Pooling says what a window does with its elements: one window at a time in plain storage, many channels at once in
// channels-last storage. Forward, a window has a state; backward, it gives shares of its gradient to its taps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/base/dtype.h"
#include "ops/kernels/pool/geometry.h"
#include "ops/kernels/pool/index_lanes.h"
#include "ops/kernels/pool/reach.h"
#include "ops/kit/convert.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/kit/vec_math.h"

namespace snug::core {

inline constexpr int64_t kPoolBlock = 64;  // so many windows of plain storage are done together

// As internal::Select, for taps.
SNUG_INLINE int32_t SelectTap(bool condition, int32_t a, int32_t b) {
  const auto mask = -static_cast<int32_t>(condition);
  return (a & mask) | (b & ~mask);
}

template <class T>
class AveragePooling {
 public:
  using A = Accumulator<T>;
  static constexpr bool kMayHaveFewTaps = true;
  static constexpr bool kOnlyLanes = false;
  struct BlockState {
    A sum[kPoolBlock];
  };

  AveragePooling(const PoolGeometry& g, bool include_padding) : axes_(g.axes), include_padding_(include_padding) {}

  // Forward, a window begins with a State and then takes elements, or rows of them. Lane j of a block keeps the state
  // of one window between rows.
  struct State {
    A sum;
  };
  SNUG_INLINE State Begin(int32_t /*first_tap*/) const { return {A(0)}; }
  SNUG_INLINE State Get(const BlockState& b, int64_t j) const { return {b.sum[j]}; }
  SNUG_INLINE void Set(BlockState& b, int64_t j, State s) const { b.sum[j] = s.sum; }
  SNUG_INLINE void Take(State& s, T value, int32_t /*tap*/) const { s.sum += static_cast<A>(value); }
  SNUG_INLINE void TakeRow(State& s, const T* values, int64_t n, int32_t /*tap*/) const {
    if (n < kLanes) {
      for (int64_t i = 0; i < n; ++i) s.sum += static_cast<A>(values[i]);
    } else {
      s.sum += static_cast<A>(LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(values[i]); }));
    }
  }
  SNUG_INLINE void Finish(State s, A factor, T* y, int64_t at) const { y[at] = T(s.sum * factor); }

  // Returns one axis's factor; a window's sum is multiplied by the product of them.
  SNUG_INLINE A Factor(int axis, int64_t o) const {
    const PoolAxis& a = axes_[static_cast<size_t>(axis)];
    return A(1) / static_cast<A>(include_padding_ ? a.padded_taps(o) : a.taps(o).size());
  }

  // Backward, gives shares of window `at` to its taps first_tap + t, for t in `taps`. Tap t adds to sum[t * dilation].
  SNUG_INLINE void Deal(const T* dy, int64_t at, int32_t /*first_tap*/, IndexRange taps, int64_t dilation, A factor,
                        A* sum) const {
    const A share = static_cast<A>(dy[at]) * factor;
    for (int64_t t = taps.begin; t < taps.end; ++t) sum[t * dilation] += share;
  }

  // The following do the same for N channels of one window, K taps at a time, whose elements begin at x[k].
  template <int N>
  struct LaneState {
    alignas(kCacheLine) A sum[N];
  };
  template <int N>
  SNUG_INLINE void BeginLanes(LaneState<N>& s, int32_t /*first_tap*/) const {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < N; ++j) s.sum[j] = A(0);
  }
  template <int N, int K>
  SNUG_INLINE void TakeLanes(LaneState<N>& s, const std::array<const T*, K>& x,
                             const std::array<int32_t, K>& /*taps*/) const {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < N; ++j) {
      A sum = s.sum[j];
      for (size_t k = 0; k < K; ++k) sum += static_cast<A>(x[k][j]);
      s.sum[j] = sum;
    }
  }
  template <int N>
  SNUG_INLINE void FinishLanes(const LaneState<N>& s, A factor, T* y, Reach at) const {
    WriteReach<N>(y, at, [&](T* values) SNUG_LAMBDA {
      SNUG_EACH_OF_N
      for (int64_t j = 0; j < N; ++j) values[j] = T(s.sum[j] * factor);
    });
  }
  // Adds the share that window `at` gives to its tap `tap`.
  template <int N>
  SNUG_INLINE void AddShareLanes(A* sum, const T* dy, Reach at, int32_t /*tap*/, A factor) const {
    ReadReach<N>(dy, at, [&](const T* values) SNUG_LAMBDA {
      SNUG_EACH_OF_N
      for (int64_t j = 0; j < N; ++j) sum[j] += static_cast<A>(values[j]) * factor;
    });
  }
  // Does the same for K windows whose lanes begin at `from`.
  template <int N, int K>
  SNUG_INLINE void AddSharesLanes(A* sum, const T* dy, const std::array<int64_t, K>& from,
                                  const std::array<int32_t, K>& /*taps*/, const std::array<A, K>& factors) const {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < N; ++j) {
      A added = sum[j];
      for (size_t k = 0; k < K; ++k) added += static_cast<A>(dy[from[k] + j]) * factors[k];
      sum[j] = added;
    }
  }
  // Writes the share to the element's place in dx if no other window has the element. It is added to 0, as it is above,
  // so that -0 becomes 0.
  template <int N>
  SNUG_INLINE void GiveLanes(const T* dy, Reach at, int32_t /*tap*/, A factor, T* dx, Reach to) const {
    ReadReach<N>(dy, at, [&](const T* values) SNUG_LAMBDA {
      WriteReach<N>(dx, to, [&](T* shares) SNUG_LAMBDA {
        SNUG_EACH_OF_N
        for (int64_t j = 0; j < N; ++j) shares[j] = T(A(0) + static_cast<A>(values[j]) * factor);
      });
    });
  }

 private:
  std::array<PoolAxis, 3> axes_;
  bool include_padding_;
};

// Takes the first maximum in row-major order; NaN is above everything. The tap of each maximum is stored in an Index;
// with void it is not stored, and as a HalfByte it is stored of lanes that are whole groups.
template <class T, class Index>
class MaximumPooling {
 public:
  using A = Accumulator<T>;
  // An index has 32 bits where a window has more taps than 8 bits can count (PoolGeometry::index_type).
  static constexpr bool kMayHaveFewTaps = !std::is_same_v<std::remove_const_t<Index>, int32_t>;
  static constexpr bool kOnlyLanes = std::is_same_v<std::remove_const_t<Index>, HalfByte>;
  struct BlockState {
    A best[kPoolBlock];
    int32_t tap[kPoolBlock];
  };
  // The index is written forward and read backward, where Index is const.
  using IndexPointer = std::conditional_t<std::is_void_v<Index>, std::nullptr_t, StoredIndex<Index>*>;

  explicit MaximumPooling(IndexPointer index) : index_(index) {}

  struct State {
    A best;
    int32_t tap;
  };
  SNUG_INLINE State Begin(int32_t first_tap) const { return {-std::numeric_limits<A>::infinity(), first_tap}; }
  SNUG_INLINE State Get(const BlockState& b, int64_t j) const { return {b.best[j], b.tap[j]}; }
  SNUG_INLINE void Set(BlockState& b, int64_t j, State s) const {
    b.best[j] = s.best;
    b.tap[j] = s.tap;
  }
  SNUG_INLINE void Take(State& s, T value, int32_t tap) const {
    const A v = static_cast<A>(value);
    const bool better = (v > s.best) | (v != v);
    s.best = internal::Select(better, v, s.best);
    s.tap = SelectTap(better, tap, s.tap);
  }
  SNUG_INLINE void TakeRow(State& s, const T* values, int64_t n, int32_t tap) const {
    for (int64_t i = 0; i < n; ++i) Take(s, values[i], tap + static_cast<int32_t>(i));
  }
  SNUG_INLINE void Finish(State s, A /*factor*/, T* y, int64_t at) const {
    y[at] = Exactly<T>(s.best);
    if constexpr (!std::is_void_v<Index> && !std::is_const_v<Index>) index_[at] = static_cast<Index>(s.tap);
  }
  SNUG_INLINE A Factor(int /*axis*/, int64_t /*o*/) const { return A(1); }
  SNUG_INLINE void Deal(const T* dy, int64_t at, int32_t first_tap, IndexRange taps, int64_t dilation, A /*factor*/,
                        A* sum) const {
    const int64_t t = index_[at] - first_tap;
    if (t >= taps.begin && t < taps.end) sum[t * dilation] += static_cast<A>(dy[at]);
  }

  template <int N>
  struct LaneState {
    alignas(kCacheLine) A best[N];
    alignas(kCacheLine) int32_t tap[N];
  };
  template <int N>
  SNUG_INLINE void BeginLanes(LaneState<N>& s, int32_t first_tap) const {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < N; ++j) {
      s.best[j] = -std::numeric_limits<A>::infinity();
      s.tap[j] = first_tap;
    }
  }
  template <int N, int K>
  SNUG_INLINE void TakeLanes(LaneState<N>& s, const std::array<const T*, K>& x,
                             const std::array<int32_t, K>& taps) const {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < N; ++j) {
      State state{s.best[j], s.tap[j]};
      for (size_t k = 0; k < K; ++k) Take(state, x[k][j], taps[k]);
      s.best[j] = state.best;
      s.tap[j] = state.tap;
    }
  }
  template <int N>
  SNUG_INLINE void FinishLanes(const LaneState<N>& s, A /*factor*/, T* y, Reach at) const {
    WriteReach<N>(y, at, [&](T* values) SNUG_LAMBDA {
      SNUG_EACH_OF_N
      for (int64_t j = 0; j < N; ++j) values[j] = Exactly<T>(s.best[j]);
    });
    if constexpr (!std::is_void_v<Index> && !std::is_const_v<Index>) {
      WriteIndices<N, Index>(index_, at, [&](auto* indices) SNUG_LAMBDA {
        SNUG_EACH_OF_N
        for (int64_t j = 0; j < N; ++j) indices[j] = static_cast<StoredIndex<Index>>(s.tap[j]);
      });
    }
  }
  template <int N>
  SNUG_INLINE void AddShareLanes(A* sum, const T* dy, Reach at, int32_t tap, A /*factor*/) const {
    if constexpr (kOnlyLanes) return AddWhereTap<N, 1>(index_, dy, {at.at}, {tap}, sum);
    ReadReach<N>(index_, at, [&](const auto* indices) SNUG_LAMBDA {
      ReadReach<N>(dy, at, [&](const T* values) SNUG_LAMBDA {
        SNUG_EACH_OF_N
        for (int64_t j = 0; j < N; ++j) {
          const int32_t found = indices[j];
          sum[j] += internal::Select(found == tap, static_cast<A>(values[j]), A(0));
        }
      });
    });
  }
  template <int N, int K>
  SNUG_INLINE void AddSharesLanes(A* sum, const T* dy, const std::array<int64_t, K>& from,
                                  const std::array<int32_t, K>& taps, const std::array<A, K>& /*factors*/) const {
    if constexpr (kOnlyLanes) return AddWhereTap<N>(index_, dy, from, taps, sum);
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < N; ++j) {
      A added = sum[j];
      for (size_t k = 0; k < K; ++k) {
        const int32_t found = index_[from[k] + j];
        added += internal::Select(found == taps[k], static_cast<A>(dy[from[k] + j]), A(0));
      }
      sum[j] = added;
    }
  }
  template <int N>
  SNUG_INLINE void GiveLanes(const T* dy, Reach at, int32_t tap, A /*factor*/, T* dx, Reach to) const {
    if constexpr (kOnlyLanes) {
      alignas(kCacheLine) A sums[N] = {};
      AddWhereTap<N, 1>(index_, dy, {at.at}, {tap}, static_cast<A*>(sums));
      return WriteReach<N>(dx, to, [&](T* shares) SNUG_LAMBDA {
        SNUG_EACH_OF_N
        for (int64_t j = 0; j < N; ++j) shares[j] = Exactly<T>(sums[j]);
      });
    }
    ReadReach<N>(index_, at, [&](const auto* indices) SNUG_LAMBDA {
      ReadReach<N>(dy, at, [&](const T* values) SNUG_LAMBDA {
        WriteReach<N>(dx, to, [&](T* shares) SNUG_LAMBDA {
          SNUG_EACH_OF_N
          for (int64_t j = 0; j < N; ++j) {
            const A value = static_cast<A>(values[j]);  // always loaded, so that this vectorises
            const int32_t found = indices[j];
            shares[j] = Exactly<T>(A(0) + (found == tap ? value : A(0)));
          }
        });
      });
    });
  }

 private:
  IndexPointer index_;
};

// A row of the output (forward) or of the input (backward), counted along (sample or channel, depth, height).
class PoolRow {
 public:
  PoolRow(int64_t row, int64_t depth, int64_t height)
      : index(row),
        outer(row / height / depth),
        d(row / height % depth),
        h(row % height),
        depth_(depth),
        height_(height) {}

  SNUG_INLINE void Next() {
    ++index;
    if (++h < height_) return;
    h = 0;
    if (++d < depth_) return;
    d = 0;
    ++outer;
  }

  int64_t index, outer, d, h;

 private:
  int64_t depth_, height_;
};

}  // namespace snug::core
