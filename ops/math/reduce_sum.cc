// reduce_sum: y = the sum of x along axes. Its gradient keeps nothing.
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kernels/reduce/options.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/dispatch.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::reduce_sum {
namespace {

using proto::ParseOptions;

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, RepeatToInput(g, g.output_grad(0)));
  return g.status();
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const ReducePlan plan = PlanReduceNode(k.types());
    Reduce<SumOp>(k.threads(), plan, k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

FusedReduction Fused(const NodeTypes& types) { return {.plan = PlanReduceNode(types)}; }

void Samples(SampleBuilder& s) {
  AddReduceSamples(s);
  s.Case("known").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 2}).Values({1, 2, 3, 4}).Expect(0, {3, 7});
}

}  // namespace

SNUG_OPS(reduce_sum) {
  return {{.name = "reduce_sum",
           .doc = "y = sum of x along `axis`",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = InferReduce,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfReduce,
           .reduction = Fused,
           .kernels = {Plain(Kernel),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareReduceNodeCuda),
                        .run = SNUG_IF_CUDA(
                            [](const KernelContext& k) { return ReduceCuda<SumOp>(k, PlanReduceNode(k.types())); })}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::reduce_sum
