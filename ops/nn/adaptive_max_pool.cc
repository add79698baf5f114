// adaptive_max_pool: the largest element of each of `size` windows that divide the input as evenly as they can.
// Training runs adaptive_max_pool_indices; max_pool.cc says why.
#include "engine/base/status.h"
#include "ops/kernels/pool/infer.h"
#include "ops/kernels/pool/pool.h"
#include "ops/kit/options.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::adaptive_max_pool {
namespace {

template <bool kIndex>
absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
  const ValueType& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g,
                        MakeAdaptivePoolGeometry(c.options<proto::AdaptivePool>().size(), x.shape, x.layout));
  SetPooled(c, g, kIndex);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const ValueType& dy = c.input(1);
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(c.options<proto::ShapeOf>()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(1, x.rank(), x.rank()));
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakeAdaptivePoolGeometry(dy.shape.dims().subspan(2), x, dy.layout));
  return SetUnpooled(c, g, x);
}

absl::Status Layer(LayerContext& c) {
  const bool keep = c.training();
  c.SetOutput(0, c.Op(keep ? "adaptive_max_pool_indices" : "adaptive_max_pool", c.inputs(), c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("adaptive_max_pool_grad", {g.output(1), g.output_grad(0)}, InputShape(g)));
  return g.status();
}

// It is the same forward and backward: `x` is the value before pooling, `y` the one after.
absl::StatusOr<PoolGeometry> Geometry(const ValueType& x, const ValueType& y) {
  return MakeAdaptivePoolGeometry(y.shape.dims().subspan(2), x.shape, x.layout);
}

template <MaximumPoolFn pool>
absl::Status Forward(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(k.input_type(0), k.output_type(0)));
  return pool(k, g);
}

template <MaximumPoolFn unpool>
absl::Status Backward(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(k.output_type(0), k.input_type(1)));
  return unpool(k, g);
}

void GoodSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::AdaptivePool>;
  s.Case("even").Input({2, 19, 8, 6}).Distinct().With(options("size: [4, 3]"));
  s.Case("uneven").Input({2, 3, 7, 10}).Distinct().With(options("size: [3, 4]"));
  s.Case("larger_than_the_input").Input({2, 3, 3, 2}).Distinct().With(options("size: 5"));
  s.Case("large_window").Input({1, 3, 17, 18}).Distinct().With(options("size: 1"));
  s.Case("line").Input({2, 3, 11}).Distinct().With(options("size: 4"));
  s.Case("volume").Input({1, 18, 3, 4, 5}).Distinct().With(options("size: [2, 2, 3]"));
  s.Case("known").Input({1, 1, 5}).Values({1, 2, 3, 4, 8}).With(options("size: 2")).Expect(0, {3, 8});
}

void Samples(SampleBuilder& s) {
  GoodSamples(s);
  const auto options = proto::ParseOptions<proto::AdaptivePool>;
  s.Case("rank").Input({2, 3}).With(options("size: 2")).Fails("expected 3 to 5 dimensions");
  s.Case("no_size").Input({2, 3, 4}).With(options("")).Fails("option \"size\": is missing");
  s.Case("too_many_taps").Input({1, 1, 65536, 65536}).With(options("size: 1")).Fails("at most 2147483647 elements");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::ShapeOf>;
  s.Case("uneven").Bytes({2, 3, 3, 4}, 0, 6).Input({2, 3, 3, 4}).With(options("dim: [2, 3, 7, 10]"));
  s.Case("known")
      .Bytes({1, 1, 2})
      .Values({2, 0})
      .Input({1, 1, 2})
      .Values({3, 6})
      .With(options("dim: [1, 1, 5]"))
      .Expect(0, {0, 0, 9, 0, 0});
  s.Case("wrong_index").Int({1, 1, 2}, 0, 2).Input({1, 1, 2}).With(options("dim: [1, 1, 5]")).Fails("is no index");
}

}  // namespace

SNUG_OPS(adaptive_max_pool) {
  return {{.name = "adaptive_max_pool",
           .doc = "y = the maximum of each of `size` windows, from floor(i in / size) to ceil((i + 1) in / size)",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer<false>,
           .layer = Layer,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {Plain(Forward<MaximumPool>), OwnOnCuda(SNUG_IF_CUDA(Forward<MaximumPoolCuda>))},
           .samples = Samples},
          {.name = "adaptive_max_pool_indices",
           .doc = "y = the maximum of each window, index = its number within the window (the first, if several)",
           .inputs = {{"x"}},
           .outputs = {{"y"}, {"index", PortType::kAny}},
           .infer = Infer<true>,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {Plain(Forward<MaximumPool>), OwnOnCuda(SNUG_IF_CUDA(Forward<MaximumPoolCuda>))},
           .samples = GoodSamples},
          {.name = "adaptive_max_pool_grad",
           .doc = "dx = the sum of dy over the windows whose maximum it was",
           .inputs = {{"index", PortType::kAny}, {"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {Plain(Backward<MaximumUnpool>), OwnOnCuda(SNUG_IF_CUDA(Backward<MaximumUnpoolCuda>))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::adaptive_max_pool
