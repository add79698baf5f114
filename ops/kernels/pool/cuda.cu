// Pooling by CUDA kernels. A thread computes one window or, backward, one element from all windows that reach over it;
// where lanes are neighbours (channels-last), it does so for 16 bytes of them.
#include <limits>

#include "ops/kernels/pool/pool.h"
#include "ops/kit/cuda_axes.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// A pixel's position in [outer, depth, height, width], and the first of a pack of its lanes.
struct PoolIndex {
  int64_t outer, d, h, w, lane;
};

// Says which pack thread i works for: neighbours are neighbouring packs of lanes, then pixels.
class PoolPacks {
 public:
  PoolPacks(int64_t outer, int64_t depth, int64_t height, int64_t width, int64_t lanes, int pack)
      : depth_(depth), height_(height), width_(width), packs_(lanes / pack), count_(outer * depth * height * width) {
    by_packs_ = CudaDivisor(packs_, count());
    by_width_ = CudaDivisor(width, count_);
    by_height_ = CudaDivisor(height, count_);
    by_depth_ = CudaDivisor(depth, count_);
  }
  int64_t count() const { return count_ * packs_; }
  template <int kPack>
  __device__ PoolIndex At(int64_t i) const {
    PoolIndex at;
    const int64_t pixel = by_packs_.Divide(i);
    at.lane = (i - pixel * packs_) * kPack;
    const int64_t row = by_width_.Divide(pixel);
    at.w = pixel - row * width_;
    const int64_t plane = by_height_.Divide(row);
    at.h = row - plane * height_;
    at.outer = by_depth_.Divide(plane);
    at.d = plane - at.outer * depth_;
    return at;
  }

 private:
  int64_t depth_, height_, width_, packs_;
  int64_t count_;  // of pixels
  CudaDivisor by_packs_, by_width_, by_height_, by_depth_;
};

PoolPacks WindowsOf(const PoolGeometry& g, int pack) {
  return {g.outer, g.axes[0].out, g.axes[1].out, g.axes[2].out, g.lanes, pack};
}
PoolPacks ElementsOf(const PoolGeometry& g, int pack) {
  return {g.outer, g.axes[0].in, g.axes[1].in, g.axes[2].in, g.lanes, pack};
}

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

template <class T, int kPack>
__global__ void AveragePoolKernel(int64_t n, PoolGeometry g, PoolPacks packs, bool include_padding, const T* x, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const PoolIndex at = packs.At<kPack>(i);
    A sums[kPack] = {};
    ForEachTap(g, at, [&](int64_t element, int64_t) {
      const auto pack = LoadPack<true, kPack>(x + element, kPack);
      for (int j = 0; j < kPack; ++j) sums[j] += static_cast<A>(pack.values[j]);
    });
    const A share = Share<A>(g, include_padding, at.d, at.h, at.w);
    CudaPack<T, kPack> result;
    for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<T>(sums[j] * share);
    StorePack<true>(result, y + i * kPack, kPack);
  }
}

template <class T, int kPack>
__global__ void AverageUnpoolKernel(int64_t n, PoolGeometry g, PoolPacks packs, bool include_padding, const T* dy,
                                    T* dx) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A sums[kPack] = {};
    ForEachWindow(g, packs.At<kPack>(i), [&](int64_t window, int64_t, int64_t d, int64_t h, int64_t w) {
      const auto pack = LoadPack<true, kPack>(dy + window, kPack);
      const A share = Share<A>(g, include_padding, d, h, w);
      for (int j = 0; j < kPack; ++j) sums[j] += static_cast<A>(pack.values[j]) * share;
    });
    CudaPack<T, kPack> result;
    for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<T>(sums[j]);
    StorePack<true>(result, dx + i * kPack, kPack);
  }
}

// `index` may be null.
template <class T, class Index, int kPack>
__global__ void MaximumPoolKernel(int64_t n, PoolGeometry g, PoolPacks packs, const T* x, T* y, Index* index) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A best[kPack];
    for (int j = 0; j < kPack; ++j) best[j] = -std::numeric_limits<A>::infinity();
    Index best_tap[kPack] = {};
    bool first = true;
    ForEachTap(g, packs.At<kPack>(i), [&](int64_t element, int64_t tap) {
      const auto pack = LoadPack<true, kPack>(x + element, kPack);
      for (int j = 0; j < kPack; ++j) {
        const A v = static_cast<A>(pack.values[j]);
        if (first || v > best[j] || v != v) best_tap[j] = static_cast<Index>(tap);
        if (v > best[j] || v != v) best[j] = v;
      }
      first = false;
    });
    CudaPack<T, kPack> result;
    CudaPack<Index, kPack> taps;
    for (int j = 0; j < kPack; ++j) {
      result.values[j] = static_cast<T>(best[j]);
      taps.values[j] = first ? static_cast<Index>(-1) : best_tap[j];
    }
    StorePack<true>(result, y + i * kPack, kPack);
    if (index != nullptr) StorePack<true>(taps, index + i * kPack, kPack);
  }
}

template <class T, class Index, int kPack>
__global__ void MaximumUnpoolKernel(int64_t n, PoolGeometry g, PoolPacks packs, const Index* index, const T* dy,
                                    T* dx) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A sums[kPack] = {};
    ForEachWindow(g, packs.At<kPack>(i), [&](int64_t window, int64_t tap, int64_t, int64_t, int64_t) {
      const auto taps = LoadPack<true, kPack>(index + window, kPack);
      const auto pack = LoadPack<true, kPack>(dy + window, kPack);
      for (int j = 0; j < kPack; ++j) {
        sums[j] += static_cast<int64_t>(taps.values[j]) == tap ? static_cast<A>(pack.values[j]) : A(0);
      }
    });
    CudaPack<T, kPack> result;
    for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<T>(sums[j]);
    StorePack<true>(result, dx + i * kPack, kPack);
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
    const T* x = k.input<T>(0);
    T* y = k.output<T>(0);
    const auto run = [&](auto pack) {
      const PoolPacks packs = WindowsOf(g, pack);
      return k.cuda()->Launch(AveragePoolKernel<T, pack()>, ShapeFor(packs.count()), packs.count(), g, packs,
                              include_padding, x, y);
    };
    return WithPack<T>(g.lanes, run, x, y);
  });
}

absl::Status AverageUnpoolCuda(const KernelContext& k, const PoolGeometry& g, bool include_padding) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* dy = k.input<T>(0);
    T* dx = k.output<T>(0);
    const auto run = [&](auto pack) {
      const PoolPacks packs = ElementsOf(g, pack);
      return k.cuda()->Launch(AverageUnpoolKernel<T, pack()>, ShapeFor(packs.count()), packs.count(), g, packs,
                              include_padding, dy, dx);
    };
    return WithPack<T>(g.lanes, run, dy, dx);
  });
}

absl::Status MaximumPoolCuda(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchIndex(g.index_type(), [&](auto integer) {
      using T = decltype(zero);
      using Index = decltype(integer);
      const T* x = k.input<T>(0);
      T* y = k.output<T>(0);
      Index* index = k.num_outputs() > 1 ? k.output<Index>(1) : nullptr;
      const auto run = [&](auto pack) {
        const PoolPacks packs = WindowsOf(g, pack);
        return k.cuda()->Launch(MaximumPoolKernel<T, Index, pack()>, ShapeFor(packs.count()), packs.count(), g, packs,
                                x, y, index);
      };
      return WithPack<T>(g.lanes, run, x, y, index);
    });
  });
}

absl::Status MaximumUnpoolCuda(const KernelContext& k, const PoolGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchIndex(g.index_type(), [&](auto integer) {
      using T = decltype(zero);
      using Index = decltype(integer);
      const Index* index = k.input<Index>(0);
      const T* dy = k.input<T>(1);
      T* dx = k.output<T>(0);
      const auto run = [&](auto pack) {
        const PoolPacks packs = ElementsOf(g, pack);
        return k.cuda()->Launch(MaximumUnpoolKernel<T, Index, pack()>, ShapeFor(packs.count()), packs.count(), g, packs,
                                index, dy, dx);
      };
      return WithPack<T>(g.lanes, run, index, dy, dx);
    });
  });
}

}  // namespace snug::core
