// Batch normalisation by CUDA kernels (cuda.cu), which do what batch_norm.h says of each call.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "ops/kernels/batch_norm/batch_norm.h"

namespace snug::core {

template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormForward<T>& call);
template <class T>
absl::Status BatchNormOnCuda(const KernelContext& k, const ChannelView& view, const BatchNormBackward<T>& call);

absl::Status PrepareBatchNormCuda(PrepareContext& c);

// The kernel of an op, with the same Call as BatchNormCpu.
template <class Call>
absl::Status BatchNormCuda(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    return BatchNormOnCuda(k, ChannelView(k.input_type(0)), Call::template Make<decltype(zero)>(k));
  });
}

// How running statistics follow those of a batch, whose channels have `count` elements.
struct StatisticNumbers {
  double momentum, count;
};

// If the gate is open, sets running = (1 - momentum) running + momentum batch, for several batch norms at once
// (KernelRow::together), which are prepared as StatisticNumbers.
absl::Status BatchNormUpdateCuda(absl::Span<const KernelContext> nodes);

}  // namespace snug::core
