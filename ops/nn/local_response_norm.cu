// Local response norm, and its gradient, by CUDA kernels.
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/rows_cuda.h"

namespace snug::core {
namespace {

// ChannelWindow as kernels walk it.
struct CudaChannelWindow : ChannelWindow {
  CudaChannelWindow(const ChannelWindow& window, int64_t elements)
      : ChannelWindow(window), by_inner(window.inner, elements), by_channels(window.channels, elements) {}
  CudaDivisor by_inner, by_channels;
};

// Sums load(j) over the channels j of the window around element i. Mirrored, it is the window of those whose windows
// have i.
template <class A, class Load>
__device__ A SumWindow(const CudaChannelWindow& window, int64_t i, bool mirrored, const Load& load) {
  const int64_t run = window.by_inner.Divide(i);
  const int64_t channel = run - window.by_channels.Divide(run) * window.channels;
  const int64_t before = mirrored ? window.after : window.before;
  const int64_t after = mirrored ? window.before : window.after;
  const int64_t first = channel < before ? -channel : -before;
  const int64_t last = channel + after < window.channels ? after : window.channels - 1 - channel;
  A sum = 0;
  for (int64_t j = first; j <= last; ++j) sum += load(i + j * window.inner);
  return sum;
}

// Returns what local_response_norm takes the power of.
template <class A, class T>
__device__ A ResponseAround(const CudaChannelWindow& window, int64_t i, const T* x) {
  const A squares = SumWindow<A>(window, i, /*mirrored=*/false, [&](int64_t j) {
    const A v = static_cast<A>(x[j]);
    return v * v;
  });
  return static_cast<A>(window.k) + static_cast<A>(window.alpha) * squares;
}

template <class T>
__global__ void ResponseKernel(int64_t n, CudaChannelWindow window, const T* x, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A power = Pow(ResponseAround<A>(window, i, x), static_cast<A>(-window.beta));
    y[i] = static_cast<T>(static_cast<A>(x[i]) * power);
  }
}

// Computes for each element what it passes on to the others in its window: dy x response^(-beta - 1).
template <class T>
__global__ void ResponsePassedKernel(int64_t n, CudaChannelWindow window, const T* x, const T* dy,
                                     Accumulator<T>* passed) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A response = ResponseAround<A>(window, i, x);
    const A power = Pow(response, static_cast<A>(-window.beta));
    passed[i] = static_cast<A>(dy[i]) * static_cast<A>(x[i]) * power / response;
  }
}

// dx may be dy.
template <class T>
__global__ void ResponseGradKernel(int64_t n, CudaChannelWindow window, const T* x, const T* dy,
                                   const Accumulator<T>* passed, T* dx) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A power = Pow(ResponseAround<A>(window, i, x), static_cast<A>(-window.beta));
    const A sum = SumWindow<A>(window, i, /*mirrored=*/true, [&](int64_t j) { return passed[j]; });
    const A factor = static_cast<A>(2 * window.alpha * window.beta);
    dx[i] = static_cast<T>(static_cast<A>(dy[i]) * power - factor * static_cast<A>(x[i]) * sum);
  }
}
}  // namespace

absl::Status LocalResponseNormCuda(const KernelContext& k, const ChannelWindow& window) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    const CudaChannelWindow walked(window, n);
    return k.cuda()->Launch(ResponseKernel<T>, ShapeFor(n), n, walked, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status LocalResponseNormGradCuda(const KernelContext& k, const ChannelWindow& window) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    const CudaChannelWindow walked(window, n);
    auto* passed = k.workspace<Accumulator<T>>();
    SNUG_RETURN_IF_ERROR(
        k.cuda()->Launch(ResponsePassedKernel<T>, ShapeFor(n), n, walked, k.input<T>(0), k.input<T>(1), passed));
    return k.cuda()->Launch(ResponseGradKernel<T>, ShapeFor(n), n, walked, k.input<T>(0), k.input<T>(1), passed,
                            k.output<T>(0));
  });
}

}  // namespace snug::core
