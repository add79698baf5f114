// Group norm, and its gradient, by CUDA kernels. As on the processor there are two ways: groups that lie together are
// rows (cuda_together.cu); channels of several positions that lie side by side are columns (cuda_side_by_side.cu).
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "ops/kernel_context.h"
#include "ops/kernels/group_norm/group_norm.h"

namespace snug::core {

inline bool GroupsAreColumns(const GroupView& view) { return view.side_by_side && view.inner != 1; }

absl::Status NormalizeTogetherCuda(const KernelContext& k, const GroupView& view, double epsilon);
absl::Status NormalizeSideBySideCuda(const KernelContext& k, const GroupView& view, double epsilon);
int64_t NormalizeSideBySideCudaWorkspace(const GroupView& view);

absl::Status GradTogetherCuda(const KernelContext& k, const GroupView& view);
absl::Status GradSideBySideCuda(const KernelContext& k, const GroupView& view);
int64_t GradTogetherCudaWorkspace(const GroupView& view);
int64_t GradSideBySideCudaWorkspace(const GroupView& view);

}  // namespace snug::core
