#include "engine/cuda/cuda_launch.h"

#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {

absl::Status LaunchContext::LaunchKernel(const void* kernel, const LaunchShape& shape, void** arguments) const {
  if (shape.blocks == 0 || shape.blocks_y == 0 || shape.blocks_z == 0) return absl::OkStatus();
  if (shape.blocks > INT32_MAX || shape.blocks_y > 65535 || shape.blocks_z > 65535) {
    return absl::InternalError(absl::StrCat("a grid of ", shape.blocks, " x ", shape.blocks_y, " x ", shape.blocks_z,
                                            " blocks: CUDA takes 2147483647 x 65535 x 65535 at most"));
  }
  SNUG_RETURN_IF_ERROR(device().MakeCurrent());
  const dim3 grid(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y),
                  static_cast<unsigned>(shape.blocks_z));
  const dim3 block(static_cast<unsigned>(shape.threads));
  SNUG_CUDA_CALL(device().api(), cudaLaunchKernel, (kernel, grid, block, arguments, 0, stream_.handle()),
                 absl::StrCat("launching a kernel of ", shape.blocks * shape.blocks_y * shape.blocks_z, " blocks of ",
                              shape.threads, " threads"));
  return absl::OkStatus();
}

absl::Status LaunchContext::Copy(void* to, const void* from, int64_t bytes) const {
  if (bytes == 0 || to == from) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(device().MakeCurrent());
  SNUG_CUDA_CALL(device().api(), cuMemcpyDtoDAsync,
                 (reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), static_cast<size_t>(bytes),
                  stream_.handle()),
                 absl::StrCat("copying ", bytes, " bytes"));
  return absl::OkStatus();
}

}  // namespace snug::core::cuda
