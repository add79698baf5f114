// Upsampling by CUDA kernels. A thread computes a pack of neighbours: of one pixel's channels where they are the last
// axis in memory, else of a row's pixels.
#include "ops/kernels/upsample/upsample.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// The position of element i of [outer, depth, height, width, lanes].
struct UpsampleIndex {
  int64_t outer, d, h, w, lane;

  __device__ UpsampleIndex(int64_t i, int64_t depth, int64_t height, int64_t width, int64_t lanes) {
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

// The elements before and behind a place of the output, and the share of the latter.
template <class A>
struct UpsamplePlace {
  int64_t before, behind;
  A share;

  __device__ UpsamplePlace(const UpsampleAxis& axis, int64_t o, bool linear) {
    const int64_t position = axis.Position(o);
    before = position / axis.unit;
    share = linear ? static_cast<A>(position - before * axis.unit) / static_cast<A>(axis.unit) : A(0);
    behind = share == A(0) ? before : before + 1;
  }
};

// Returns the share that place o of the output takes from element i.
template <class A>
__device__ A ShareOf(const UpsampleAxis& axis, int64_t o, int64_t i, bool linear) {
  if (!linear) return A(1);
  const int64_t distance = axis.Position(o) - i * axis.unit;
  const A share = A(1) - static_cast<A>(distance < 0 ? -distance : distance) / static_cast<A>(axis.unit);
  return share > A(0) ? share : A(0);
}

// Adds a pixel's share in y to `sum`, for kCount lanes of x from `lane` on.
template <int kCount, class T, class A>
__device__ void AddPlace(const UpsampleGeometry& g, const UpsampleIndex& at, const UpsamplePlace<A>& d,
                         const UpsamplePlace<A>& h, const UpsamplePlace<A>& w, const T* x, A* sum) {
  for (int far = 0; far <= (d.share == A(0) ? 0 : 1); ++far) {
    const int64_t plane = at.outer * g.axes[0].in + (far ? d.behind : d.before);
    for (int low = 0; low <= (h.share == A(0) ? 0 : 1); ++low) {
      const int64_t line = plane * g.axes[1].in + (low ? h.behind : h.before);
      const A line_share = (far ? d.share : 1 - d.share) * (low ? h.share : 1 - h.share);
      for (int right = 0; right <= (w.share == A(0) ? 0 : 1); ++right) {
        const int64_t pixel = line * g.axes[2].in + (right ? w.behind : w.before);
        const A share = line_share * (right ? w.share : 1 - w.share);
        const auto pack = reinterpret_cast<const CudaPack<T, kCount>*>(x + pixel * g.lanes)[at.lane];
        for (int j = 0; j < kCount; ++j) sum[j] += share * static_cast<A>(pack.values[j]);
      }
    }
  }
}

// Computes kPack elements of y at a time: neighbouring lanes or, where there is one lane, neighbouring pixels.
template <class T, int kPack>
__global__ void UpsampleKernel(int64_t n, UpsampleGeometry g, const T* x, T* y) {
  using A = Accumulator<T>;
  const UpsampleAxis& width = g.axes[2];
  const bool along = g.lanes == 1;
  SNUG_CUDA_FOR(i, n) {
    const UpsampleIndex at(i, g.axes[0].out, g.axes[1].out, along ? width.out / kPack : width.out,
                           along ? 1 : g.lanes / kPack);
    const UpsamplePlace<A> d(g.axes[0], at.d, g.linear);
    const UpsamplePlace<A> h(g.axes[1], at.h, g.linear);
    A sum[kPack] = {};
    if (along) {
      for (int j = 0; j < kPack; ++j) {
        AddPlace<1>(g, at, d, h, UpsamplePlace<A>(width, at.w * kPack + j, g.linear), x, sum + j);
      }
    } else {
      AddPlace<kPack>(g, at, d, h, UpsamplePlace<A>(width, at.w, g.linear), x, sum);
    }
    CudaPack<T, kPack> result;
    for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<T>(sum[j]);
    reinterpret_cast<CudaPack<T, kPack>*>(y)[i] = result;
  }
}

// Computes kPack neighbouring lanes of dx at a time, from all places that took from them.
template <class T, int kPack>
__global__ void UpsampleGradKernel(int64_t n, UpsampleGeometry g, const T* dy, T* dx) {
  using A = Accumulator<T>;
  const UpsampleAxis& depth = g.axes[0];
  const UpsampleAxis& height = g.axes[1];
  const UpsampleAxis& width = g.axes[2];
  const int64_t reach = g.linear ? 1 : 0;  // places before an element take from it, too
  SNUG_CUDA_FOR(i, n) {
    const UpsampleIndex at(i, depth.in, height.in, width.in, g.lanes / kPack);
    const int64_t last_d = depth.FirstFrom(at.d + 1);
    const int64_t last_h = height.FirstFrom(at.h + 1);
    const int64_t last_w = width.FirstFrom(at.w + 1);
    A sum[kPack] = {};
    for (int64_t d = depth.FirstFrom(at.d - reach); d < last_d; ++d) {
      const A plane_share = ShareOf<A>(depth, d, at.d, g.linear);
      for (int64_t h = height.FirstFrom(at.h - reach); h < last_h; ++h) {
        const A line_share = plane_share * ShareOf<A>(height, h, at.h, g.linear);
        const int64_t line = (at.outer * depth.out + d) * height.out + h;
        for (int64_t w = width.FirstFrom(at.w - reach); w < last_w; ++w) {
          const A share = line_share * ShareOf<A>(width, w, at.w, g.linear);
          const T* from = dy + (line * width.out + w) * g.lanes;
          const auto pack = reinterpret_cast<const CudaPack<T, kPack>*>(from)[at.lane];
          for (int j = 0; j < kPack; ++j) sum[j] += share * static_cast<A>(pack.values[j]);
        }
      }
    }
    CudaPack<T, kPack> result;
    for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<T>(sum[j]);
    reinterpret_cast<CudaPack<T, kPack>*>(dx)[i] = result;
  }
}

bool AreAligned(const KernelContext& k) { return IsAligned(k.input<void>(0)) && IsAligned(k.output<void>(0)); }

}  // namespace

absl::Status UpsampleCuda(const KernelContext& k, const UpsampleGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = 16 / sizeof(T);
    const int64_t n = k.output_type(0).num_elements();
    if (!AreAligned(k) || (g.lanes == 1 ? g.axes[2].out : g.lanes) % kPack != 0) {
      return k.cuda()->Launch(UpsampleKernel<T, 1>, ShapeFor(n), n, g, k.input<T>(0), k.output<T>(0));
    }
    return k.cuda()->Launch(UpsampleKernel<T, kPack>, ShapeFor(n / kPack), n / kPack, g, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status UpsampleGradCuda(const KernelContext& k, const UpsampleGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = 16 / sizeof(T);
    const int64_t n = k.output_type(0).num_elements();
    if (!AreAligned(k) || g.lanes % kPack != 0) {
      return k.cuda()->Launch(UpsampleGradKernel<T, 1>, ShapeFor(n), n, g, k.input<T>(0), k.output<T>(0));
    }
    return k.cuda()->Launch(UpsampleGradKernel<T, kPack>, ShapeFor(n / kPack), n / kPack, g, k.input<T>(0),
                            k.output<T>(0));
  });
}

}  // namespace snug::core
