// Attention by CUDA kernels (attention.cu). Memory is linear in the length: of the scores only what a block works at
// exists, and the backward pass computes them again.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"
#include "ops/lib/attention.h"

namespace snug {

template <class T>
absl::Status AttentionCuda(const KernelContext& k, const AttentionSizes& sizes, const AttentionForward<T>& call);
template <class T>
absl::Status AttentionGradCuda(const KernelContext& k, const AttentionSizes& sizes, const AttentionBackward<T>& call);

}  // namespace snug
