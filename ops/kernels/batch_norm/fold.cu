// Folds a batch norm into the weights before it: a block for each channel.
#include "ops/kernels/batch_norm/fold.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

template <class T>
__global__ void FoldKernel(BatchNormFold<T> fold, int64_t channels, int64_t size) {
  for (int64_t channel = blockIdx.x; channel < channels; channel += gridDim.x) {
    const auto factor = fold.FactorOf(channel);
    for (int64_t i = threadIdx.x; i < size; i += blockDim.x) fold.FoldWeight(channel * size + i, factor);
    if (threadIdx.x == 0) fold.FoldBias(channel, factor);
  }
}

}  // namespace

absl::Status FoldBatchNormCuda(const KernelContext& k, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t channels = k.input_type(0).shape[0];
    const int64_t size = k.input_type(0).num_elements() / channels;
    return k.cuda()->Launch(FoldKernel<T>, {.blocks = std::min<int64_t>(channels, 1 << 16), .threads = kCudaThreads},
                            BatchNormFold<T>(k, epsilon), channels, size);
  });
}

}  // namespace snug::core
