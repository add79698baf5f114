// Pooling by CUDA kernels. A thread computes one window or, backward, one element from all windows that reach over it.
#include <limits>

#include "ops/kernels/pool/pool.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// The position of element i of [outer, depth, height, width, lanes].
struct PoolIndex {
  int64_t outer, d, h, w, lane;

  __device__ PoolIndex(int64_t i, int64_t depth, int64_t height, int64_t width, int64_t lanes) {
    lane = i % lanes;
    i /= lanes;
    w = i % width;
    i /= width;
    h = i % height;
    i /= height;
    d = i % depth;
    outer = i / depth;
  }
};

// Calls take(element, tap) for every element of a window.
template <class Take>
__device__ void ForEachTap(const PoolGeometry& g, const PoolIndex& at, const Take& take) {
  const PoolAxis& depth = g.axes[0];
  const PoolAxis& height = g.axes[1];
  const PoolAxis& width = g.axes[2];
  const IndexRange kd = depth.taps(at.d);
  const IndexRange kh = height.taps(at.h);
  const IndexRange kw = width.taps(at.w);
  for (int64_t d = kd.begin; d < kd.end; ++d) {
    const int64_t plane = at.outer * depth.in + depth.start(at.d) + d * depth.dilation;
    for (int64_t h = kh.begin; h < kh.end; ++h) {
      const int64_t line = (plane * height.in + height.start(at.h) + h * height.dilation) * width.in;
      for (int64_t w = kw.begin; w < kw.end; ++w) {
        const int64_t element = line + width.start(at.w) + w * width.dilation;
        take(element * g.lanes + at.lane, (d * height.window + h) * width.window + w);
      }
    }
  }
}

// Calls take(window, its tap, d, h, w) for every window that has the element.
template <class Take>
__device__ void ForEachWindow(const PoolGeometry& g, const PoolIndex& at, const Take& take) {
  const PoolAxis& depth = g.axes[0];
  const PoolAxis& height = g.axes[1];
  const PoolAxis& width = g.axes[2];
  const IndexRange od = depth.windows(at.d);
  const IndexRange oh = height.windows(at.h);
  const IndexRange ow = width.windows(at.w);
  for (int64_t d = od.begin; d < od.end; ++d) {
    const int64_t tap_d = depth.tap(d, at.d);
    if (tap_d < 0) continue;
    for (int64_t h = oh.begin; h < oh.end; ++h) {
      const int64_t tap_h = height.tap(h, at.h);
      if (tap_h < 0) continue;
      for (int64_t w = ow.begin; w < ow.end; ++w) {
        const int64_t tap_w = width.tap(w, at.w);
        if (tap_w < 0) continue;
        const int64_t window = ((at.outer * depth.out + d) * height.out + h) * width.out + w;
        take(window * g.lanes + at.lane, (tap_d * height.window + tap_h) * width.window + tap_w, d, h, w);
      }
    }
  }
}

// Returns what a window's sum is multiplied by.
template <class A>
__device__ A Share(const PoolGeometry& g, bool include_padding, int64_t d, int64_t h, int64_t w) {
  const auto factor = [&](const PoolAxis& axis, int64_t o) {
    return A(1) / static_cast<A>(include_padding ? axis.padded_taps(o) : axis.taps(o).size());
  };
  return factor(g.axes[0], d) * factor(g.axes[1], h) * factor(g.axes[2], w);
}

__device__ PoolIndex WindowOf(const PoolGeometry& g, int64_t i) {
  return PoolIndex(i, g.axes[0].out, g.axes[1].out, g.axes[2].out, g.lanes);
}
__device__ PoolIndex ElementOf(const PoolGeometry& g, int64_t i) {
  return PoolIndex(i, g.axes[0].in, g.axes[1].in, g.axes[2].in, g.lanes);
}

template <class T>
__global__ void AveragePoolKernel(int64_t n, PoolGeometry g, bool include_padding, const T* x, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const PoolIndex at = WindowOf(g, i);
    A sum = 0;
    ForEachTap(g, at, [&](int64_t element, int64_t) { sum += static_cast<A>(x[element]); });
    y[i] = static_cast<T>(sum * Share<A>(g, include_padding, at.d, at.h, at.w));
  }
}

template <class T>
__global__ void AverageUnpoolKernel(int64_t n, PoolGeometry g, bool include_padding, const T* dy, T* dx) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A sum = 0;
    ForEachWindow(g, ElementOf(g, i), [&](int64_t window, int64_t, int64_t d, int64_t h, int64_t w) {
      sum += static_cast<A>(dy[window]) * Share<A>(g, include_padding, d, h, w);
    });
    dx[i] = static_cast<T>(sum);
  }
}

// `index` may be null.
template <class T, class Index>
__global__ void MaximumPoolKernel(int64_t n, PoolGeometry g, const T* x, T* y, Index* index) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A best = -std::numeric_limits<A>::infinity();
    int64_t best_tap = -1;
    ForEachTap(g, WindowOf(g, i), [&](int64_t element, int64_t tap) {
      const A v = static_cast<A>(x[element]);
      if (best_tap < 0) best_tap = tap;
      if (v > best || v != v) {
        best = v;
        best_tap = tap;
      }
    });
    y[i] = static_cast<T>(best);
    if (index != nullptr) index[i] = static_cast<Index>(best_tap);
  }
}

template <class T, class Index>
__global__ void MaximumUnpoolKernel(int64_t n, PoolGeometry g, const Index* index, const T* dy, T* dx) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A sum = 0;
    ForEachWindow(g, ElementOf(g, i), [&](int64_t window, int64_t tap, int64_t, int64_t, int64_t) {
      if (static_cast<int64_t>(index[window]) == tap) sum += static_cast<A>(dy[window]);
    });
    dx[i] = static_cast<T>(sum);
  }
}

template <class Fn>
absl::Status DispatchIndex(DType dtype, Fn&& fn) {
  return dtype == DType::kUint8 ? fn(uint8_t{}) : fn(int32_t{});
}

}  // namespace

absl::Status AveragePoolCuda(const KernelContext& k, const PoolGeometry& g, bool include_padding) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(AveragePoolKernel<T>, ShapeFor(n), n, g, include_padding, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status AverageUnpoolCuda(const KernelContext& k, const PoolGeometry& g, bool include_padding) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(AverageUnpoolKernel<T>, ShapeFor(n), n, g, include_padding, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status MaximumPoolCuda(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchIndex(g.index_type(), [&](auto integer) {
      using T = decltype(zero);
      using Index = decltype(integer);
      const int64_t n = k.output_type(0).num_elements();
      return k.cuda()->Launch(MaximumPoolKernel<T, Index>, ShapeFor(n), n, g, k.input<T>(0), k.output<T>(0),
                              k.num_outputs() > 1 ? k.output<Index>(1) : nullptr);
    });
  });
}

absl::Status MaximumUnpoolCuda(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchIndex(g.index_type(), [&](auto integer) {
      using T = decltype(zero);
      using Index = decltype(integer);
      const int64_t n = k.output_type(0).num_elements();
      return k.cuda()->Launch(MaximumUnpoolKernel<T, Index>, ShapeFor(n), n, g, k.input<Index>(0), k.input<T>(1),
                              k.output<T>(0));
    });
  });
}

}  // namespace snug::core
