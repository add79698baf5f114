// Folds a batch norm into the weights before it: a thread for each weight, and the first one of a channel for its bias.
#include "ops/kernels/batch_norm/fold.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

template <class T>
__global__ void FoldKernel(BatchNormFold<T> fold, int64_t elements, int64_t elements_of_channel) {
  SNUG_CUDA_FOR(i, elements) {
    const int64_t channel = i / elements_of_channel;
    const auto factor = fold.FactorOf(channel);
    fold.FoldWeight(i, factor);
    if (i == channel * elements_of_channel) fold.FoldBias(channel, factor);
  }
}

}  // namespace

absl::Status FoldBatchNormCuda(const KernelContext& k, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t elements = k.input_type(0).num_elements();
    const int64_t channels = k.input_type(0).shape[0];
    return k.cuda()->Launch(FoldKernel<T>, ShapeFor(elements), BatchNormFold<T>(k, epsilon), elements,
                            elements / channels);
  });
}

}  // namespace snug::core
