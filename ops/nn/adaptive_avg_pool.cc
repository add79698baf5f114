// adaptive_avg_pool: the mean of each of `size` windows that divide the input as evenly as they can.
#include "engine/base/status.h"
#include "ops/kernels/pool/infer.h"
#include "ops/kernels/pool/pool.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::adaptive_avg_pool {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
  const ValueType& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g,
                        MakeAdaptivePoolGeometry(c.options<proto::AdaptivePool>().size(), x.shape, x.layout));
  SetPooled(c, g, /*with_index=*/false);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const ValueType& dy = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(c.options<proto::ShapeOf>()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, x.rank(), x.rank()));
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakeAdaptivePoolGeometry(dy.shape.dims().subspan(2), x, dy.layout));
  return SetUnpooled(c, g, x);
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("adaptive_avg_pool_grad", {g.output_grad(0)}, InputShape(g)));
  return g.status();
}

// It is the same forward and backward: `x` is the value before pooling, `y` the one after.
absl::StatusOr<PoolGeometry> Geometry(const ValueType& x, const ValueType& y) {
  return MakeAdaptivePoolGeometry(y.shape.dims().subspan(2), x.shape, x.layout);
}

template <AveragePoolFn pool>
absl::Status Forward(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(k.input_type(0), k.output_type(0)));
  return pool(k, g, /*include_padding=*/false);
}

template <AveragePoolFn unpool>
absl::Status Backward(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(k.output_type(0), k.input_type(0)));
  return unpool(k, g, /*include_padding=*/false);
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::AdaptivePool>;
  s.Case("even").Input({2, 19, 8, 6}).With(options("size: [4, 3]"));
  s.Case("uneven").Input({2, 3, 7, 10}).With(options("size: [3, 4]"));
  s.Case("larger_than_the_input").Input({2, 3, 3, 2}).With(options("size: 5"));
  s.Case("global").Input({2, 3, 5, 7}).With(options("size: 1"));
  s.Case("line").Input({2, 3, 11}).With(options("size: 4"));
  s.Case("volume").Input({1, 18, 3, 4, 5}).With(options("size: [2, 2, 3]"));
  s.Case("known").Input({1, 1, 5}).Values({1, 2, 3, 4, 8}).With(options("size: 2")).Expect(0, {2, 5});
  s.Case("rank").Input({2, 3}).With(options("size: 2")).Fails("expected 3 to 5 dimensions");
  s.Case("no_size").Input({2, 3, 4}).With(options("")).Fails("option \"size\": is missing");
  s.Case("size_0").Input({2, 3, 4}).With(options("size: 0")).Fails("option \"size\": expected between 1");
  s.Case("two_sizes").Input({2, 3, 4}).With(options("size: [1, 2]")).Fails("expected 1 number");
  s.Case("huge").Input({2, 3, 4}).With(options("size: 65537")).Fails("expected at most 65536, found 65537");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::ShapeOf>;
  s.Case("uneven").Input({2, 3, 3, 4}).With(options("dim: [2, 3, 7, 10]"));
  s.Case("known").Input({1, 1, 2}).Values({3, 6}).With(options("dim: [1, 1, 5]")).Expect(0, {1, 1, 3, 2, 2});
  s.Case("wrong_channels").Input({2, 4, 3}).With(options("dim: [2, 3, 7]")).Fails("expected shape [2, 3, 3]");
}

}  // namespace

SNUG_OPS(adaptive_avg_pool) {
  return {{.name = "adaptive_avg_pool",
           .doc = "y = the mean of each of `size` windows, from floor(i in / size) to ceil((i + 1) in / size)",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {Plain(Forward<AveragePool>), OwnOnCuda(SNUG_IF_CUDA(Forward<AveragePoolCuda>))},
           .samples = Samples},
          {.name = "adaptive_avg_pool_grad",
           .doc = "dx = the sum over the windows that cover it of dy / the window's size",
           .inputs = {{"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {Plain(Backward<AverageUnpool>), OwnOnCuda(SNUG_IF_CUDA(Backward<AverageUnpoolCuda>))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::adaptive_avg_pool
