// The kernel row of matrix products by our own CUDA kernel (cuda.cu).
#include "ops/kernels/matmul/cuda.h"

#include <algorithm>
#include <array>
#include <memory>

#include "engine/base/status.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kit/elementwise.h"
#include "ops/kit/library_variant.h"
#include "ops/math/functions.h"

namespace snug::core {

int64_t SumsOfFactorWorkspace(const NodeTypes& types, const MatMulNode& node) {
  if (!node.sums_a) return 0;
  const ReducePlan plan = PlanSumToShape(types.input(node.a), types.output(1));
  return CudaReduceSpread(plan, types.input(node.a).dtype).WorkspaceBytes();
}

NodeTypes GeluSweepTypes(const NodeTypes& types, const MatMulNode& node) {
  if (node.gelu) return {.inputs = {types.output(0)}, .present = {true}, .outputs = {types.output(1)}};
  if (node.before_gelu < 0) return {};
  return {.inputs = {types.input(node.before_gelu), types.output(0)},
          .present = {true, true},
          .outputs = {types.output(0)}};
}

absl::Status FinishFusedCuda(const KernelContext& k, const MatMulNode& node, const NodeTypes& inner) {
  if (node.sums_a) return SumPortCuda(k, PlanSumToShape(k.input_type(node.a), k.output_type(1)), node.a, 1);
  if (node.gelu) {
    const std::array<void*, 1> inputs = {k.output<void>(0)};
    const std::array<void*, 1> outputs = {k.output<void>(1)};
    const KernelContext gelu(&inner, inputs, outputs, nullptr, nullptr, k.threads(), k.random_id(), k.cuda());
    return ElementwiseCuda<functions::GeluByTanh>(gelu);
  }
  if (node.before_gelu < 0) return absl::OkStatus();
  // In place: the product is dy.
  void* const c = k.output<void>(0);
  const std::array<void*, 2> inputs = {k.variable<void>(node.before_gelu), c};
  const std::array<void*, 1> outputs = {c};
  const KernelContext gelu(&inner, inputs, outputs, nullptr, nullptr, k.threads(), k.random_id(), k.cuda());
  return ElementwiseCuda<functions::GeluByTanhGrad>(gelu);
}

KernelRow OwnCudaMatMulRow(DescribeMatMul describe) {
  return {.device = kOnCuda,
          .name = "own",
          .prepare = [describe](PrepareContext& c) -> absl::Status {
            SNUG_RETURN_IF_ERROR(TakeOwnBesideLibrary(c));
            const MatMulNode node = describe(c.types());
            c.SetKernel(std::make_shared<NodeTypes>(GeluSweepTypes(c.types(), node)));
            c.SetWorkspaceBytes(std::max(OwnCudaMatMulWorkspace(node, c.types().output(0).dtype),
                                         SumsOfFactorWorkspace(c.types(), node)));
            return absl::OkStatus();
          },
          .run = [describe](const KernelContext& k) -> absl::Status {
            const MatMulNode node = describe(k.types());
            SNUG_RETURN_IF_ERROR(RunOwnCudaMatMul(k, node));
            return FinishFusedCuda(k, node, k.prepared<NodeTypes>());
          }};
}

}  // namespace snug::core
