// Batch normalisation by CUDA kernels (batch_norm.cu): what the calls of batch_norm.h say.
#pragma once

#include <absl/status/status.h>

#include "ops/lib/batch_norm.h"

namespace snug {

template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormForward<T>& call);
template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormBackward<T>& call);

// The sums of channels are computed in parts, by shapes alone.
struct BatchNormCudaParts {
  explicit BatchNormCudaParts(const ChannelView& view);
  bool by_block;  // a block for each channel and part; else a thread
  int64_t parts;
};

absl::Status PrepareBatchNormCuda(PrepareContext& c);

// The kernel of an op, as BatchNormCpu.
template <class Call>
absl::Status BatchNormCuda(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    return BatchNormOnCuda(k, ChannelView(k.input_type(0)), Call::template Make<decltype(zero)>(k));
  });
}

// running = (1 - momentum) running + momentum batch, n elements per channel; where the gate is open.
absl::Status BatchNormUpdateCuda(const KernelContext& k, double momentum, double n);

}  // namespace snug
