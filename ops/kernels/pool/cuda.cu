// Pooling by CUDA kernels. A thread computes one window or, backward, one element from all windows that reach over it;
// where lanes are neighbours (channels-last), it does so for 16 bytes of them. Kernels for the usual maxima, over
// squares of 2 or 3, know the window as they are compiled: all that a thread reads is then on its way before it uses
// the first.
#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include "ops/cuda_numbers.h"
#include "ops/kernels/pool/pool.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
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
SNUG_HOST_DEVICE A Share(const PoolGeometry& g, bool include_padding, int64_t d, int64_t h, int64_t w) {
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

// The sizes of planes whose windows are squares, in which nothing is left to look up.
struct SquarePlanes {
  int in_height, in_width, out_height, out_width, pad_height, pad_width;
  int64_t lanes;
};

// Computes what MaximumPoolKernel does, for windows of kWindow x kWindow elements that lie kStride apart.
template <class T, int kPack, int kWindow, int kStride>
__global__ void __launch_bounds__(kCudaThreads, 3)
    SquareMaximumPoolKernel(int64_t n, SquarePlanes planes, PoolPacks packs, const T* x, T* y, uint8_t* index) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const PoolIndex at = packs.At<kPack>(i);
    const int top = static_cast<int>(at.h) * kStride - planes.pad_height;
    const int left = static_cast<int>(at.w) * kStride - planes.pad_width;
    const T* plane = x + at.outer * planes.in_height * planes.in_width * planes.lanes + at.lane;
    CudaPack<T, kPack> taken[kWindow * kWindow];
    bool inside[kWindow * kWindow];
#pragma unroll
    for (int tap = 0; tap < kWindow * kWindow; ++tap) {
      const int h = top + tap / kWindow;
      const int w = left + tap % kWindow;
      inside[tap] = h >= 0 && h < planes.in_height && w >= 0 && w < planes.in_width;
      if (inside[tap]) {
        taken[tap] = LoadPack<true, kPack>(plane + (int64_t{h} * planes.in_width + w) * planes.lanes, kPack);
      }
    }
    A result[kPack];
    CudaPack<uint8_t, kPack> taps;
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      A best = -std::numeric_limits<A>::infinity();
      int best_tap = -1;
#pragma unroll
      for (int tap = 0; tap < kWindow * kWindow; ++tap) {
        const A v = static_cast<A>(taken[tap].values[j]);
        if (!inside[tap]) continue;
        if (best_tap < 0 || v > best || v != v) best_tap = tap;
        if (v > best || v != v) best = v;
      }
      result[j] = best;
      taps.values[j] = static_cast<uint8_t>(best_tap);
    }
    StorePack<true>(RoundPack<T>(result), y + i * kPack, kPack);
    if (index != nullptr) StorePack<true>(taps, index + i * kPack, kPack);
  }
}

// Computes what MaximumUnpoolKernel does, adding in the same sequence.
template <class T, int kPack, int kWindow, int kStride>
__global__ void __launch_bounds__(kCudaThreads, 4)
    SquareMaximumUnpoolKernel(int64_t n, SquarePlanes planes, PoolPacks packs, const uint8_t* index, const T* dy,
                              T* dx) {
  using A = Accumulator<T>;
  constexpr int kReach = (kWindow + kStride - 1) / kStride;  // windows that an element may be in, along an axis
  SNUG_CUDA_FOR(i, n) {
    const PoolIndex at = packs.At<kPack>(i);
    const int h = static_cast<int>(at.h) + planes.pad_height;
    const int w = static_cast<int>(at.w) + planes.pad_width;
    const int64_t plane = at.outer * planes.out_height * planes.out_width;
    CudaPack<uint8_t, kPack> taps[kReach * kReach];
    CudaPack<T, kPack> packs_of_dy[kReach * kReach];
    bool reaches[kReach * kReach];
#pragma unroll
    for (int c = 0; c < kReach * kReach; ++c) {
      const int oh = h / kStride - (kReach - 1) + c / kReach;
      const int ow = w / kStride - (kReach - 1) + c % kReach;
      reaches[c] = oh >= 0 && oh < planes.out_height && h - oh * kStride < kWindow && ow >= 0 &&
                   ow < planes.out_width && w - ow * kStride < kWindow;
      if (!reaches[c]) continue;
      const int64_t window = (plane + int64_t{oh} * planes.out_width + ow) * planes.lanes + at.lane;
      taps[c] = LoadPack<true, kPack>(index + window, kPack);
      packs_of_dy[c] = LoadPack<true, kPack>(dy + window, kPack);
    }
    A sums[kPack] = {};
#pragma unroll
    for (int c = 0; c < kReach * kReach; ++c) {
      if (!reaches[c]) continue;
      const int oh = h / kStride - (kReach - 1) + c / kReach;
      const int ow = w / kStride - (kReach - 1) + c % kReach;
      const int tap = (h - oh * kStride) * kWindow + (w - ow * kStride);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        sums[j] += taps[c].values[j] == tap ? static_cast<A>(packs_of_dy[c].values[j]) : A(0);
      }
    }
    StorePack<true>(RoundPack<T>(sums), dx + i * kPack, kPack);
  }
}

// Where a single window is the whole input: each element gets its share.
template <class T, int kPack>
__global__ void SpreadKernel(int64_t n, int64_t packs_of_pixel, CudaDivisor by_pixel, CudaDivisor by_sample,
                             Accumulator<T> share, const T* dy, T* dx) {
  SNUG_CUDA_FOR(i, n) {
    const int64_t pixel = by_pixel.Divide(i);
    const int64_t from = by_sample.Divide(i) * packs_of_pixel + (i - pixel * packs_of_pixel);
    auto pack = LoadPack<true, kPack>(dy + from * kPack, kPack);
    for (int j = 0; j < kPack; ++j) {
      pack.values[j] = static_cast<T>(static_cast<Accumulator<T>>(pack.values[j]) * share);
    }
    StorePack<true>(pack, dx + i * kPack, kPack);
  }
}

// Calls fn(window, stride), both constants, if the windows are squares that have kernels; otherwise returns nothing.
template <class Fn>
std::optional<absl::Status> WithSquare(const PoolGeometry& g, const Fn& fn) {
  const auto& [depth, height, width] = g.axes;
  const auto is = [](const PoolAxis& axis, int64_t window, int64_t stride) {
    return !axis.adaptive && axis.window == window && axis.stride == stride && axis.dilation == 1;
  };
  const bool plane = depth.in == 1 && depth.out == 1 && depth.window == 1;
  const bool small = std::max(height.in, width.in) <= (1 << 20);
  if (!plane || !small) return std::nullopt;
  const auto try_square = [&]<int kWindow, int kStride>(std::integral_constant<int, kWindow>,
                                                        std::integral_constant<int, kStride>,
                                                        std::optional<absl::Status>* done) {
    if (done->has_value() || !is(height, kWindow, kStride) || !is(width, kWindow, kStride)) return;
    *done = fn(std::integral_constant<int, kWindow>(), std::integral_constant<int, kStride>());
  };
  std::optional<absl::Status> done;
  try_square(std::integral_constant<int, 3>(), std::integral_constant<int, 2>(), &done);
  try_square(std::integral_constant<int, 2>(), std::integral_constant<int, 2>(), &done);
  return done;
}

// Says whether the geometry is one window over everything, without padding.
bool IsWholeInput(const PoolGeometry& g) {
  return std::all_of(g.axes.begin(), g.axes.end(), [](const PoolAxis& axis) {
    return axis.out == 1 && axis.window == axis.in && axis.pad_begin == 0 && axis.pad_end == 0;
  });
}

SquarePlanes PlanesOf(const PoolGeometry& g) {
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  return {number(g.axes[1].in),
          number(g.axes[2].in),
          number(g.axes[1].out),
          number(g.axes[2].out),
          number(g.axes[1].pad_begin),
          number(g.axes[2].pad_begin),
          g.lanes};
}

// Says whether the squares' kernels serve: 16 bytes of lanes of a type at a time, which fills their loads.
template <class T, class Index, class Pack>
constexpr bool kHasSquares =
    !std::is_same_v<T, double> && std::is_same_v<Index, uint8_t> && Pack::value == kCudaPack<T>;

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
    if (IsWholeInput(g)) {
      const Accumulator<T> share = Share<Accumulator<T>>(g, include_padding, 0, 0, 0);
      const auto spread = [&](auto pack) {
        const int64_t n = g.outer * g.inputs() * g.lanes / pack;
        const int64_t of_pixel = g.lanes / pack;
        return k.cuda()->Launch(SpreadKernel<T, pack()>, ShapeFor(n), n, of_pixel, CudaDivisor(of_pixel, n),
                                CudaDivisor(g.inputs() * of_pixel, n), share, dy, dx);
      };
      return WithPack<T>(g.lanes, spread, dy, dx);
    }
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
        if constexpr (kHasSquares<T, Index, decltype(pack)>) {
          const auto done = WithSquare(g, [&](auto window, auto stride) {
            return k.cuda()->Launch(SquareMaximumPoolKernel<T, pack(), window(), stride()>, ShapeFor(packs.count()),
                                    packs.count(), PlanesOf(g), packs, x, y, index);
          });
          if (done.has_value()) return *done;
        }
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
        if constexpr (kHasSquares<T, Index, decltype(pack)>) {
          const auto done = WithSquare(g, [&](auto window, auto stride) {
            return k.cuda()->Launch(SquareMaximumUnpoolKernel<T, pack(), window(), stride()>, ShapeFor(packs.count()),
                                    packs.count(), PlanesOf(g), packs, index, dy, dx);
          });
          if (done.has_value()) return *done;
        }
        return k.cuda()->Launch(MaximumUnpoolKernel<T, Index, pack()>, ShapeFor(packs.count()), packs.count(), g, packs,
                                index, dy, dx);
      };
      return WithPack<T>(g.lanes, run, index, dy, dx);
    });
  });
}

}  // namespace snug::core
