// Rows of windows are dealt out to threads. Backward, each element of dx is written once, by adding up the windows that
// cover it in row-major order. Nothing is scattered, so threads do not meet and the bits do not depend on them.
#include "ops/kernels/pool/pool.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/pool/pooling.h"
#include "ops/kernels/pool/rows_lanes.h"
#include "ops/kernels/pool/rows_plain.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

constexpr int64_t kChunk = 1 << 15;  // the fewest elements in a thread's piece of work

// Geometry and pooling are copied into each piece of work, so that the compiler sees that no store changes them.
template <class Pooling, class T>
void Pool(int threads, const PoolGeometry& geometry, const Pooling& pooling, const T* x, T* y) {
  const int64_t rows = geometry.outer * geometry.axes[0].out * geometry.axes[1].out;
  const int64_t reads = std::max(geometry.outputs(), geometry.inputs()) * geometry.outer * geometry.lanes;
  ParallelFor(threads, rows, std::max<int64_t>(1, kChunk * rows / reads), [&](int64_t begin, int64_t end) {
    WithIsa([begin, end, x, y, g = geometry, p = pooling]() SNUG_LAMBDA {
      const IndexRange whole = WholeWindows(g.axes[2]);
      for (PoolRow row(begin, g.axes[0].out, g.axes[1].out); row.index < end; row.Next()) {
        if (Pooling::kOnlyLanes || g.lanes > 1) {
          PoolRowLanes(g, p, row, whole, end, x, y);
        } else if constexpr (!Pooling::kOnlyLanes) {
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
  const bool tiles = geometry.lanes > 1 && std::all_of(geometry.axes.begin(), geometry.axes.end(),
                                                       [](const PoolAxis& axis) { return axis.tiles(); });
  ParallelFor(threads, rows, std::max<int64_t>(1, kChunk / row_size), [&](int64_t begin, int64_t end) {
    WithIsa([begin, end, tiles, dy, dx, g = geometry, p = pooling]() SNUG_LAMBDA {
      const SideBySide side_by_side(g);
      const IndexRange inner = InnerElements(g.axes[2]);
      for (PoolRow row(begin, g.axes[0].in, g.axes[1].in); row.index < end; row.Next()) {
        if (tiles) {
          UnpoolTileRowLanes(g, p, row, side_by_side, end, dy, dx);
        } else if (Pooling::kOnlyLanes || g.lanes > 1) {
          UnpoolRowLanes(g, p, row, inner, end, dy, dx);
        } else if constexpr (!Pooling::kOnlyLanes) {
          UnpoolRowPlain(g, p, row, dy, dx);
        }
      }
    });
  });
}

// Calls fn with an element of g's index type.
template <class Fn>
absl::Status WithIndex(const PoolGeometry& g, const Fn& fn) {
  return g.index_type() == DType::kUint8 ? fn(uint8_t{}) : fn(int32_t{});
}

// In plain storage, whose channels lie apart, half bytes are joined and split in a sweep of their own, which calls
// fn(byte, the whole index of its low bits, that of its high bits).
template <class Fn>
void ForEachHalfByteIndex(const PoolGeometry& g, int64_t half_bytes, const Fn& fn) {
  const int64_t pixels = g.outputs();
  for (int64_t i = 0; i < half_bytes; ++i) {
    const int64_t low = i / pixels * 2 * pixels + i % pixels;
    fn(i, low, low + pixels);
  }
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

int64_t HalfByteIndexWorkspace(const PoolGeometry& g) { return g.lanes > 1 ? 0 : g.outer * g.outputs(); }

absl::Status MaximumPoolHalfBytes(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* const halves = k.output<uint8_t>(1);
    if (g.lanes > 1) {
      Pool(k.threads(), g, MaximumPooling<T, HalfByte>(halves), k.input<T>(0), k.output<T>(0));
      return absl::OkStatus();
    }
    auto* const whole = k.workspace<uint8_t>();
    Pool(k.threads(), g, MaximumPooling<T, uint8_t>(whole), k.input<T>(0), k.output<T>(0));
    ForEachHalfByteIndex(g, k.output_type(1).num_elements(), [=](int64_t i, int64_t low, int64_t high) {
      halves[i] = static_cast<uint8_t>(whole[low] | (whole[high] << 4));
    });
    return absl::OkStatus();
  });
}

absl::Status MaximumUnpoolHalfBytes(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* const halves = k.input<uint8_t>(0);
    if (g.lanes > 1) {
      Unpool(k.threads(), g, MaximumPooling<T, const HalfByte>(halves), k.input<T>(1), k.output<T>(0));
      return absl::OkStatus();
    }
    auto* const whole = k.workspace<uint8_t>();
    ForEachHalfByteIndex(g, k.input_type(0).num_elements(), [=](int64_t i, int64_t low, int64_t high) {
      whole[low] = halves[i] & 0x0f;
      whole[high] = halves[i] >> 4;
    });
    Unpool(k.threads(), g, MaximumPooling<T, const uint8_t>(whole), k.input<T>(1), k.output<T>(0));
    return absl::OkStatus();
  });
}

}  // namespace snug::core
