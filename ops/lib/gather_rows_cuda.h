// What lib/gather_rows.h does, by CUDA kernels (gather_rows.cu). They cannot report a choice that is no row: it gives
// NaN (-1 among integers), and nothing is added to any row.
#pragma once

#include <absl/status/status.h>

#include "ops/kernel_context.h"

namespace snug {

absl::Status GatherRowsCuda(const KernelContext& k, int x, int choices, int axis);
absl::Status ScatterAddRowsCuda(const KernelContext& k, int choices, int dy, int axis);
inline int64_t ScatterAddCudaWorkspaceBytes(const NodeTypes& types, int choices) {
  return 2 * types.input(choices).num_elements() * static_cast<int64_t>(sizeof(int32_t));
}

}  // namespace snug
