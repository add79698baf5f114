// Attention by CUDA kernels of our own (attention.cu). Their memory is linear in the length: only the scores that a
// block works at exist, and the backward pass computes them again.
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
