// Small products on CUDA by a kernel of our own (cuda_small.cu): results so few that a library's tiles leave most
// processors idle, and each of them goes through all of the sum (ops/small_products.h). Here a block has few results,
// and its threads share the sum.
#pragma once

#include <optional>

#include "ops/kernels/matmul/node.h"

namespace snug::core {

// Says why the kernel has nothing for a node.
std::optional<NotServed> WhyNotSmallProduct(const MatMulNode& node);

absl::Status RunSmallProduct(const KernelContext& k, const MatMulNode& node);

}  // namespace snug::core
