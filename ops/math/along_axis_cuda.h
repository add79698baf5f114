// Ops that work along one axis, by CUDA kernels (along_axis.cu).
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/kit/along_axis.h"

namespace snug::core {

absl::Status ArgMaxCuda(const KernelContext& k, const AlongAxis& view);
absl::Status CumulativeSumCuda(const KernelContext& k, const AlongAxis& view, bool reverse);
// Finds the entries one after the other, each in a sweep over the row: this is for few of many.
absl::Status TopKEntriesCuda(const KernelContext& k, const AlongAxis& view, int64_t most);
// `view` is of dx, in each row of which `most` entries come from dy.
absl::Status TopKEntriesGradCuda(const KernelContext& k, const AlongAxis& view, int64_t most);

}  // namespace snug::core
