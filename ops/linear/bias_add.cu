#include "ops/kit/cuda_kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/linear/bias_add_cuda.h"

namespace snug::core {
namespace {

// Each thread does kPack elements; n is a multiple of it. y may be x.
template <int kPack, class T>
__global__ void BiasAddKernel(int64_t n, int64_t channels, int64_t inner, const T* x, const T* b, T* y) {
  using A = Accumulator<T>;
  using Pack = CudaPack<T, kPack>;
  SNUG_CUDA_FOR(i, n / kPack) {
    Pack values = reinterpret_cast<const Pack*>(x)[i];
    for (int j = 0; j < kPack; ++j) {
      const int64_t channel = (i * kPack + j) / inner % channels;
      values.values[j] = static_cast<T>(static_cast<A>(values.values[j]) + static_cast<A>(b[channel]));
    }
    reinterpret_cast<Pack*>(y)[i] = values;
  }
}

}  // namespace

absl::Status BiasAddCuda(const KernelContext& k, int64_t channels, int64_t inner) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = 16 / sizeof(T);
    const int64_t n = k.output_type(0).num_elements();
    const T* x = k.input<T>(0);
    T* y = k.output<T>(0);
    const bool packs = n % kPack == 0 && IsAligned(x) && IsAligned(y);
    return k.cuda()->Launch(packs ? BiasAddKernel<kPack, T> : BiasAddKernel<1, T>, ShapeFor(packs ? n / kPack : n), n,
                            channels, inner, x, k.input<T>(1), y);
  });
}

}  // namespace snug::core
