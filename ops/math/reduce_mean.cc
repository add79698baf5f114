// reduce_mean: y = the mean of x along axes. Its gradient keeps nothing.
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kernels/reduce/options.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/dispatch.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::reduce_mean {
namespace {

using proto::ParseOptions;

absl::Status Gradient(GradContext& g) {  // dy is scaled before it is repeated, because it is smaller then
  proto::Scale scale;
  scale.set_factor(ShareInMean(g.input_type(0), g.output_type(0)));
  g.SetInputGrad(0, RepeatToInput(g, g.Op("scale", {g.output_grad(0)}, proto::MakeOptions(scale))));
  return g.status();
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const ReducePlan plan = PlanReduceNode(k.types());
    Reduce<SumOp>(k.threads(), plan, k.input<T>(0), k.output<T>(0), ShareInMean(k.input_type(0), k.output_type(0)));
    return absl::OkStatus();
  });
}

FusedReduction Fused(const NodeTypes& types) {
  return {.plan = PlanReduceNode(types), .factor = ShareInMean(types.input(0), types.output(0))};
}

void Samples(SampleBuilder& s) {
  AddReduceSamples(s);
  s.Case("known").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 2}).Values({1, 2, 3, 4}).Expect(0, {1.5, 3.5});
}

}  // namespace

SNUG_OPS(reduce_mean) {
  return {{.name = "reduce_mean",
           .doc = "y = mean of x along `axis`",
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
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          return ReduceCuda<SumOp>(k, PlanReduceNode(k.types()),
                                                   ShareInMean(k.input_type(0), k.output_type(0)));
                        })}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::reduce_mean
