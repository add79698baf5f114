// CUDA kernels that make, add up and convert values (values.cu), and that map them (elementwise.cu).
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "ops/kernel_context.h"

namespace snug::core {

absl::Status AddNCuda(const KernelContext& k);
absl::Status CastCuda(absl::Span<const KernelContext> nodes);  // KernelRow::together
// Fills output 0, whatever its dtype.
absl::Status FillCuda(const KernelContext& k, double value);
// Makes a row of `classes` numbers for each integer of input 0: zeros with a one at the integer, or NaN if there is no
// such class.
absl::Status OneHotCuda(const KernelContext& k, int64_t classes);

// Runs a function of SNUG_FUNCTIONS (functions.h) on a CUDA device, for every floating dtype and with broadcasting.
template <class F>
absl::Status ElementwiseOnCuda(const KernelContext& k, const F& f);

}  // namespace snug::core
