// Updates and what they keep, by CUDA kernels (updates.cu). They read gate, learning rate and step on the device.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>

#include "engine/base/host_device.h"
#include "ops/kernel_context.h"
#include "ops/kernels/update/narrow_numbers.h"

namespace snug::core {

// The options of proto::Update as numbers.
struct UpdateNumbers {
  double lr_mult, momentum, weight_decay, beta1, beta2, epsilon;
  bool nesterov, decoupled_decay;
  // Set for a launch too, where one of them is narrow. Slots of squares are kSquares8 where these are kSigned8.
  KeptAs param_as = KeptAs::kFloat32, slots_as = KeptAs::kFloat32;
  uint32_t rounding_id = 0;  // set for a launch: there is room for it here, and no more elsewhere in its arguments

  // Adagrad's, which has no beta1: the arguments of a launch are no longer than 32 of these.
  SNUG_HOST_DEVICE double lr_decay() const { return beta1; }
};

// These update several parameters at once (KernelRow::together). They are prepared as UpdateNumbers. The first is for
// each function F of update_functions.h.
template <template <class> class F>
absl::Status UpdateCuda(absl::Span<const KernelContext> nodes);
absl::Status AverageUpdateCuda(absl::Span<const KernelContext> nodes);  // beta2 is the average's decay
absl::Status LambDirectionCuda(const KernelContext& k);                 // prepared as UpdateNumbers
absl::Status LambUpdateCuda(const KernelContext& k);                    // likewise
absl::Status AccumulateCuda(const KernelContext& k);
absl::Status AccumulateMeanCuda(const KernelContext& k, int64_t count);
absl::Status StoreCuda(const KernelContext& k);
absl::Status AdvanceStepCuda(const KernelContext& k);

}  // namespace snug::core
