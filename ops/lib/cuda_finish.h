// What is left to do after a library's product or convolution that could not do it in the same sweep.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "ops/kernel_context.h"
#include "ops/lib/activation.h"

namespace snug {

// Output 0 becomes activation(output 0 + bias), in place. Neighbours that lie `inner` apart are of neighbouring
// channels: 1 where channels are last. `bias` -1: there is none; otherwise its input port.
absl::Status FinishCuda(const KernelContext& k, int bias, int64_t channels, int64_t inner, Activation activation);

}  // namespace snug
