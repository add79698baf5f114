// global_avg_pool: the mean over the spatial dimensions.
#include "engine/base/status.h"
#include "ops/kernels/pool/global.h"
#include "ops/kernels/pool/infer.h"
#include "ops/kernels/pool/pool.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::global_avg_pool {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const ValueType y, GlobalPoolOutput(c, c.options<proto::GlobalPool>().keep_dims()));
  c.SetOutput(0, y);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Shape x, GlobalPoolInput(c, 0));
  c.SetOutput(0, c.input(0).dtype, x, c.input(0).layout);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("global_avg_pool_grad", {WithSpatialOnes(g, g.output_grad(0))}, InputShape(g)));
  return g.status();
}

template <AveragePoolFn pool>
absl::Status Forward(const KernelContext& k) {
  return pool(k, MakeGlobalPoolGeometry(k.input_type(0).shape, k.input_type(0).layout), false);
}

template <AveragePoolFn unpool>
absl::Status Backward(const KernelContext& k) {
  return unpool(k, MakeGlobalPoolGeometry(k.output_type(0).shape, k.output_type(0).layout), false);
}

Cost ForwardCost(const NodeTypes& t) { return {.flops = static_cast<double>(t.input(0).num_elements())}; }

void Samples(SampleBuilder& s) {
  const Options keep = proto::ParseOptions<proto::GlobalPool>("keep_dims: true");
  s.Case("image").Input({2, 19, 3, 5});
  s.Case("many_channels").Input({2, 150, 2, 3});
  s.Case("keep_dims").Input({2, 3, 4, 5}).With(keep);
  s.Case("line").Input({2, 3, 70});
  s.Case("volume").Input({2, 3, 4, 5, 6}).With(keep);
  s.Case("one_pixel").Input({2, 3, 1, 1});
  s.Case("known").Input({1, 2, 3}).Values({1, 2, 6, 4, 4, 4}).Expect(0, {3, 4});
  s.Case("rank").Input({2, 3}).Fails("expected 3 to 5 dimensions");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::ShapeOf>;
  s.Case("image").Input({2, 19, 1, 1}).With(options("dim: [2, 19, 3, 5]"));
  s.Case("known").Input({1, 2, 1}).Values({3, 6}).With(options("dim: [1, 2, 3]")).Expect(0, {1, 1, 1, 2, 2, 2});
  s.Case("wrong_shape").Input({2, 3, 2}).With(options("dim: [2, 3, 4]")).Fails("expected shape [2, 3, 1]");
}

}  // namespace

SNUG_OPS(global_avg_pool) {
  return {{.name = "global_avg_pool",
           .doc = "y = the mean over the spatial dimensions, which go away unless keep_dims",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = ForwardCost,
           .kernels = {Plain(Forward<AveragePool>),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                          PrepareReduceCuda(c, PlanGlobalPool(c.types()));
                          return absl::OkStatus();
                        }),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          const ReducePlan plan = PlanGlobalPool(k.types());
                          return ReduceCuda<SumOp>(k, plan, 1 / static_cast<double>(plan.reduced_x.count()));
                        })}},
           .samples = Samples},
          {.name = "global_avg_pool_grad",
           .doc = "dx = dy / the number of pixels",
           .inputs = {{"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {Plain(Backward<AverageUnpool>), OwnOnCuda(SNUG_IF_CUDA(Backward<AverageUnpoolCuda>))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::global_avg_pool
