// Does what is left to do after a library's product or convolution that could not do it in the same sweep.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "ops/activation.h"
#include "ops/kernel_context.h"

namespace snug::core {

// Sets output 0 to activation(output 0 + bias), in place. Elements of neighbouring channels lie `inner` apart, which is
// 1 where channels are last. `bias` is the input port, or -1 where there is none.
absl::Status FinishCuda(const KernelContext& k, int bias, int64_t channels, int64_t inner, Activation activation);

}  // namespace snug::core
