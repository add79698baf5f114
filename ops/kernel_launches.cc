#include "ops/kernel_launches.h"

#include "ops/few_rows.h"
#include "ops/fused_chain.h"
#include "ops/kernels/group_norm/cuda.h"
#include "ops/kernels/pool/global.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/cuda/reduce_spread.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

CudaLaunches LaunchesOfPlan(const ReducePlan& plan, DType dtype) {
  const CudaReduceSpread spread(plan, dtype);
  return {.launches = spread.parts == 1 ? 1 : 2, .in_packs = spread.pack > 1};
}

// Where groups are columns these are the parts' sums, the groups', and a sweep; else rows, and beside their gradient
// the sums of the channels in two launches.
CudaLaunches LaunchesOfGroupNorm(const NodeTypes& types, bool gradient) {
  const ValueType& x = types.input(0);
  const GroupView view(x, types.options.Get<proto::GroupNorm>().groups());
  if (GroupsAreColumns(view)) {
    return {.launches = gradient ? 4 : 3,
            .in_packs = NumbersInPack(view.channels, x.dtype) > 1,
            .read_again = gradient ? 2.0 : 1.0};
  }
  const int64_t width = view.elements_of_group();
  const bool held = BlockHoldsRow(width, x.dtype);
  return {.launches = gradient ? 3 : 1,
          .in_packs = NumbersInPack(width, x.dtype) > 1,
          .read_again = gradient ? (held ? 2.0 : 4.0) : (held ? 0.0 : 2.0)};
}

}  // namespace

std::optional<CudaLaunches> LaunchesOfReduction(const OpDef& op, const NodeTypes& types) {
  if (op.name == "group_norm" || op.name == "group_norm_grad") {
    return LaunchesOfGroupNorm(types, op.name == "group_norm_grad");
  }
  if (op.name == "global_avg_pool") return LaunchesOfPlan(ops::PlanGlobalPool(types), types.input(0).dtype);
  if (op.name == "fused_reduce") {
    const absl::StatusOr<FusedChain> chain = ReadFusedChain(types);
    if (!chain.ok()) return std::nullopt;
    const FusedMember& last = chain->members.back();
    return LaunchesOfPlan(last.op->reduction(last.types).plan, chain->output().dtype);
  }
  if (op.reduction == nullptr) return std::nullopt;
  return LaunchesOfPlan(op.reduction(types).plan, types.input(0).dtype);
}

CudaLaunches LaunchesOfSum(const ValueType& x, const ValueType& y) {
  return LaunchesOfPlan(PlanSumToShape(x, y), x.dtype);
}

}  // namespace snug::core
