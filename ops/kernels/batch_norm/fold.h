// The weights and bias of a convolution or dense layer that does the work of the batch norm behind it too, channel by
// channel: both the processor's kernel and CUDA's compute them so.
#pragma once

#include <absl/status/status.h>

#include <cmath>
#include <cstdint>

#include "engine/base/host_device.h"
#include "ops/kernel_context.h"
#include "ops/kit/float32_port.h"

namespace snug::core {

struct BatchNormFoldPorts {
  enum Input { kWeight, kBias, kScale, kShift, kMean, kVar };
};

template <class T>
struct BatchNormFold : BatchNormFoldPorts {
  using S = Float32Port<T>;

  BatchNormFold(const KernelContext& k, double constant)
      : weight(k.input<T>(kWeight)),
        bias(k.has_input(kBias) ? k.input<T>(kBias) : nullptr),
        scale(k.has_input(kScale) ? k.input<S>(kScale) : nullptr),
        shift(k.has_input(kShift) ? k.input<S>(kShift) : nullptr),
        mean(k.input<S>(kMean)),
        var(k.input<S>(kVar)),
        epsilon(static_cast<S>(constant)),
        folded(k.output<T>(0)),
        folded_bias(k.output<T>(1)) {}

  SNUG_HOST_DEVICE S FactorOf(int64_t channel) const {
    return (scale == nullptr ? S(1) : scale[channel]) / std::sqrt(var[channel] + epsilon);
  }
  SNUG_HOST_DEVICE void FoldWeight(int64_t i, S factor) const {
    folded[i] = static_cast<T>(static_cast<S>(weight[i]) * factor);
  }
  SNUG_HOST_DEVICE void FoldBias(int64_t channel, S factor) const {
    const S before = bias == nullptr ? S(0) : static_cast<S>(bias[channel]);
    const S after = shift == nullptr ? S(0) : shift[channel];
    folded_bias[channel] = static_cast<T>((before - mean[channel]) * factor + after);
  }

  const T* weight;
  const T* bias;
  const S* scale;
  const S* shift;
  const S* mean;
  const S* var;
  S epsilon;
  T* folded;
  T* folded_bias;
};

absl::Status FoldBatchNormCuda(const KernelContext& k, double epsilon);  // fold.cu

}  // namespace snug::core
