#include "ops/kit/cuda/finish.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// y has n values; bias is [channels], or null.
template <class T>
__global__ void FinishKernel(int64_t n, int64_t channels, int64_t inner, Activation activation, const T* bias, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    A value = static_cast<A>(y[i]);
    if (bias != nullptr) value += static_cast<A>(bias[i / inner % channels]);
    y[i] = static_cast<T>(Activate(activation, value));
  }
}

}  // namespace

absl::Status FinishCuda(const KernelContext& k, int bias, int64_t channels, int64_t inner, Activation activation) {
  if (bias < 0 && activation == Activation::kIdentity) return absl::OkStatus();
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(FinishKernel<T>, ShapeFor(n), n, channels, inner, activation,
                            bias < 0 ? nullptr : k.input<T>(bias), k.output<T>(0));
  });
}

}  // namespace snug::core
