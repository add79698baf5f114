// The kernel row of matrix products by our own CUDA kernel (cuda.cu).
#include "ops/kernels/matmul/cuda.h"

#include "engine/base/status.h"
#include "ops/kit/library_variant.h"

namespace snug::core {

KernelRow OwnCudaMatMulRow(DescribeMatMul describe) {
  return {.device = kOnCuda,
          .name = "own",
          .prepare = [describe](PrepareContext& c) -> absl::Status {
            SNUG_RETURN_IF_ERROR(TakeOwnBesideLibrary(c));
            c.SetWorkspaceBytes(OwnCudaMatMulWorkspace(describe(c.types()), c.types().output(0).dtype));
            return absl::OkStatus();
          },
          .run = [describe](const KernelContext& k) { return RunOwnCudaMatMul(k, describe(k.types())); }};
}

}  // namespace snug::core
