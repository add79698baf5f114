// The kernel row of matrix products by our own CUDA kernel (cuda.cu).
#include "ops/kernels/matmul/cuda.h"

#include <algorithm>

#include "engine/base/status.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kit/library_variant.h"

namespace snug::core {

int64_t SumsOfFactorWorkspace(const NodeTypes& types, const MatMulNode& node) {
  if (!node.sums_a) return 0;
  const ReducePlan plan = PlanSumToShape(types.input(node.a), types.output(1));
  return CudaReduceParts(plan).WorkspaceBytes(plan);
}

absl::Status SumFactorCuda(const KernelContext& k, const MatMulNode& node) {
  if (!node.sums_a) return absl::OkStatus();
  return SumPortCuda(k, PlanSumToShape(k.input_type(node.a), k.output_type(1)), node.a, 1);
}

KernelRow OwnCudaMatMulRow(DescribeMatMul describe) {
  return {.device = kOnCuda,
          .name = "own",
          .prepare = [describe](PrepareContext& c) -> absl::Status {
            SNUG_RETURN_IF_ERROR(TakeOwnBesideLibrary(c));
            const MatMulNode node = describe(c.types());
            c.SetWorkspaceBytes(std::max(OwnCudaMatMulWorkspace(node, c.types().output(0).dtype),
                                         SumsOfFactorWorkspace(c.types(), node)));
            return absl::OkStatus();
          },
          .run = [describe](const KernelContext& k) -> absl::Status {
            const MatMulNode node = describe(k.types());
            SNUG_RETURN_IF_ERROR(RunOwnCudaMatMul(k, node));
            return SumFactorCuda(k, node);
          }};
}

}  // namespace snug::core
