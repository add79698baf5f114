// global_max_pool: the maximum over the spatial dimensions. Training runs global_max_pool_indices; max_pool.cc says
// why.
#include <cstdint>
#include <limits>

#include "engine/base/status.h"
#include "ops/kernels/pool/global.h"
#include "ops/kernels/pool/infer.h"
#include "ops/kernels/pool/pool.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::global_max_pool {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const ValueType y, GlobalPoolOutput(c, c.options<proto::GlobalPool>().keep_dims()));
  c.SetOutput(0, y);
  return absl::OkStatus();
}

absl::Status InferIndices(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const ValueType y, GlobalPoolOutput(c, c.options<proto::GlobalPool>().keep_dims()));
  if (c.shape(0).Count(2, c.shape(0).rank()) > std::numeric_limits<int32_t>::max()) {
    return c.InputError(0, "has more pixels than an int32 can number, which the gradient needs");
  }
  c.SetOutput(0, y);
  c.SetOutput(1, MakeGlobalPoolGeometry(c.shape(0), c.input(0).layout).index_type(), y.shape, y.layout);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Shape x, GlobalPoolInput(c, 0));
  SNUG_RETURN_IF_ERROR(GlobalPoolInput(c, 1));
  const ValueType& dy = c.input(1);
  if (c.input(0).dtype != MakeGlobalPoolGeometry(x, dy.layout).index_type()) {
    return c.InputError(0, "is no index of these windows");
  }
  c.SetOutput(0, dy.dtype, x, dy.layout);
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  c.SetOutput(0, c.Op(c.training() ? "global_max_pool_indices" : "global_max_pool", c.inputs(), c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("global_max_pool_grad",
                         {WithSpatialOnes(g, g.output(1)), WithSpatialOnes(g, g.output_grad(0))}, InputShape(g)));
  return g.status();
}

template <MaximumPoolFn pool>
absl::Status Forward(const KernelContext& k) {
  return pool(k, MakeGlobalPoolGeometry(k.input_type(0).shape, k.input_type(0).layout));
}

template <MaximumPoolFn unpool>
absl::Status Backward(const KernelContext& k) {
  return unpool(k, MakeGlobalPoolGeometry(k.output_type(0).shape, k.output_type(0).layout));
}

Cost ForwardCost(const NodeTypes& t) { return {.flops = static_cast<double>(t.input(0).num_elements())}; }

void GoodSamples(SampleBuilder& s) {
  const Options keep = proto::ParseOptions<proto::GlobalPool>("keep_dims: true");
  s.Case("image").Input({2, 19, 3, 5}).Distinct();
  s.Case("many_channels").Input({2, 70, 2, 3}).Distinct();
  s.Case("large").Input({1, 3, 16, 17}).Distinct();
  s.Case("keep_dims").Input({2, 3, 4, 5}).Distinct().With(keep);
  s.Case("line").Input({2, 3, 70}).Distinct();
  s.Case("volume").Input({2, 3, 4, 5, 6}).Distinct().With(keep);
  s.Case("known").Input({1, 2, 3}).Values({1, 6, 2, 4, 5, 3}).Expect(0, {6, 5});
}

void Samples(SampleBuilder& s) {
  GoodSamples(s);
  s.Case("rank").Input({2, 3}).Fails("expected 3 to 5 dimensions");
}

void IndicesSamples(SampleBuilder& s) {
  GoodSamples(s);
  s.Case("too_many_pixels").Input({1, 1, 65536, 65536}).Fails("has more pixels than an int32 can number");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::ShapeOf>;
  s.Case("image").Bytes({2, 19, 1, 1}, 0, 15).Input({2, 19, 1, 1}).With(options("dim: [2, 19, 3, 5]"));
  s.Case("known")
      .Bytes({1, 2, 1})
      .Values({1, 0})
      .Input({1, 2, 1})
      .Values({3, 6})
      .With(options("dim: [1, 2, 3]"))
      .Expect(0, {0, 3, 0, 6, 0, 0});
  s.Case("wrong_index").Int({1, 2, 1}, 0, 2).Input({1, 2, 1}).With(options("dim: [1, 2, 3]")).Fails("is no index");
}

}  // namespace

SNUG_OPS(global_max_pool) {
  return {
      {.name = "global_max_pool",
       .doc = "y = the maximum over the spatial dimensions, which go away unless keep_dims",
       .inputs = {{"x"}},
       .outputs = {{"y"}},
       .infer = Infer,
       .layer = Layer,
       .traits = {.layout = LayoutRule::kPrefers},
       .cost = ForwardCost,
       .kernels = {Plain(Forward<MaximumPool>), OwnOnCuda(SNUG_IF_CUDA(Forward<MaximumPoolCuda>))},
       .samples = Samples},
      {.name = "global_max_pool_indices",
       .doc = "y = the maximum over the spatial dimensions, index = the number of its pixel (the first, if several)",
       .inputs = {{"x"}},
       .outputs = {{"y"}, {"index", PortType::kAny}},
       .infer = InferIndices,
       .gradient = Gradient,
       .traits = {.layout = LayoutRule::kPrefers},
       .cost = ForwardCost,
       .kernels = {Plain(Forward<MaximumPool>), OwnOnCuda(SNUG_IF_CUDA(Forward<MaximumPoolCuda>))},
       .samples = IndicesSamples},
      {.name = "global_max_pool_grad",
       .doc = "dx = dy where the maximum was, else 0",
       .inputs = {{"index", PortType::kAny}, {"dy"}},
       .outputs = {{"dx"}},
       .infer = InferGrad,
       .traits = {.layout = LayoutRule::kPrefers},
       .kernels = {Plain(Backward<MaximumUnpool>), OwnOnCuda(SNUG_IF_CUDA(Backward<MaximumUnpoolCuda>))},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::global_max_pool
