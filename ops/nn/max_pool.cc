// max_pool: the largest element of each window. Training runs max_pool_indices, which also keeps the position of each
// maximum in its window: that is all the gradient needs, and mostly one byte each. A network that only runs forward
// keeps nothing.
#include <cmath>
#include <limits>

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

namespace snug::core::ops::max_pool {
namespace {

template <bool kIndex>
absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
  const ValueType& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakePoolGeometry(c.options<proto::Pool>(), x.shape, x.layout));
  SetPooled(c, g, kIndex);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<proto::PoolGrad>();
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(options));
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakePoolGeometry(options.pool(), x, c.input(1).layout));
  return SetUnpooled(c, g, x);
}

absl::Status Layer(LayerContext& c) {
  c.SetOutput(0, c.Op(c.training() ? "max_pool_indices" : "max_pool", c.inputs(), c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("max_pool_grad", {g.output(1), g.output_grad(0)}, WithPoolAndInputShape(g)));
  return g.status();
}

template <MaximumPoolFn pool>
absl::Status Forward(const KernelContext& k) {
  const ValueType& x = k.input_type(0);
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakePoolGeometry(k.options<proto::Pool>(), x.shape, x.layout));
  return pool(k, g);
}

template <MaximumPoolFn unpool>
absl::Status Backward(const KernelContext& k) {
  const ValueType& x = k.output_type(0);
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakePoolGeometry(k.options<proto::PoolGrad>().pool(), x.shape, x.layout));
  return unpool(k, g);
}

// It counts one comparison for each tap of each window.
Cost ForwardCost(const NodeTypes& t) {
  const absl::StatusOr<PoolGeometry> g =
      MakePoolGeometry(t.options.Get<proto::Pool>(), t.input(0).shape, t.input(0).layout);
  return {.flops = static_cast<double>(t.output(0).num_elements()) * static_cast<double>(g.ok() ? g->window() : 1)};
}

void GoodSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Pool>;
  s.Case("resnet").Input({2, 21, 9, 11}).Distinct().With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("whole_packs").Input({2, 16, 9, 11}).Distinct().With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("halves").Input({2, 3, 8, 6}).Distinct().With(options("kernel: 2"));
  s.Case("tiles").Input({2, 6, 9, 11}).Distinct().With(options("kernel: 2"));
  s.Case("tiles_with_padding").Input({2, 6, 8, 11}).Distinct().With(options("kernel: 2 pad: 1"));
  s.Case("tiles_in_pieces").Input({1, 5, 4, 171}).Distinct().With(options("kernel: [2, 7]"));
  s.Case("windows_in_pieces").Input({1, 3, 9, 100}).Distinct().With(options("kernel: 7 stride: 3"));
  s.Case("tiles_of_a_block").Input({1, 16, 6, 7}).Distinct().With(options("kernel: [2, 3]"));
  s.Case("tiles_over_a_block").Input({1, 20, 9, 5}).Distinct().With(options("kernel: 2"));
  s.Case("tiles_of_a_volume").Input({1, 5, 5, 6, 7}).Distinct().With(options("kernel: [2, 2, 3]"));
  s.Case("tiles_of_one_channel").Input({2, 1, 9, 11}).Distinct().With(options("kernel: 2"));
  s.Case("many_channels").Input({1, 70, 5, 4}).Distinct().With(options("kernel: 2 stride: 1"));
  s.Case("stride_1").Input({2, 21, 5, 9}).Distinct().With(options("kernel: 3 stride: 1 pad: 1"));
  s.Case("stride_1_dilation").Input({1, 5, 7, 19}).Distinct().With(options("kernel: 3 stride: 1 dilation: 2 pad: 1"));
  s.Case("five_by_two").Input({1, 18, 5, 9}).Distinct().With(options("kernel: 5 stride: 2 pad: 2"));
  s.Case("wide").Input({1, 2, 5, 300}).Distinct().With(options("kernel: [2, 3] stride: [2, 2] pad: [0, 1]"));
  s.Case("stride_1_and_3").Input({2, 3, 7, 40}).Distinct().With(options("kernel: [3, 2] stride: [1, 3]"));
  s.Case("gaps").Input({2, 3, 7, 8}).Distinct().With(options("kernel: 2 stride: 3"));
  s.Case("dilation").Input({2, 3, 9, 10}).Distinct().With(options("kernel: 3 stride: [1, 2] dilation: 2 pad: 1"));
  s.Case("ceil_mode").Input({2, 3, 7, 8}).Distinct().With(options("kernel: 3 stride: 2 ceil_mode: true"));
  s.Case("ceil_mode_pad").Input({1, 2, 4, 5}).Distinct().With(options("kernel: 2 stride: 2 pad: 1 ceil_mode: true"));
  s.Case("ceil_mode_one_window").Input({2, 3, 2, 7}).Distinct().With(options("kernel: 3 ceil_mode: true"));
  s.Case("ceil_mode_dilation")
      .Input({2, 3, 3, 9})
      .Distinct()
      .With(options("kernel: 3 stride: 3 dilation: 2 ceil_mode: true"));
  s.Case("ceil_mode_known")
      .Input({1, 1, 2})
      .Values({3, 5})
      .NoGradient()
      .With(options("kernel: 3 ceil_mode: true"))
      .Expect(0, {5});
  s.Case("same").Input({2, 3, 7, 8}).Distinct().With(options("kernel: 3 stride: 2 padding: SAME"));
  s.Case("line").Input({2, 3, 9}).Distinct().With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("volume")
      .Input({2, 3, 4, 5, 6})
      .Distinct()
      .With(options("kernel: [2, 3, 2] stride: [1, 2, 2] pad: [0, 1, 1]"));
  s.Case("large_window").Input({1, 2, 17, 18}).Distinct().With(options("kernel: 16 stride: 1"));
  s.Case("nan_is_above_everything")
      .Input({1, 1, 4})
      .Values({3, std::nan(""), 5, -std::numeric_limits<double>::infinity()})
      .NoGradient()
      .With(options("kernel: 2 stride: 1"))
      .Expect(0, {std::nan(""), std::nan(""), 5});
  s.Case("first_of_equals")
      .Input({1, 1, 1, 4})
      .Values({2, 3, 3, 1})
      .NoGradient()
      .With(options("kernel: [1, 4]"))
      .Expect(0, {3});
}

void Samples(SampleBuilder& s) {
  GoodSamples(s);
  const auto options = proto::ParseOptions<proto::Pool>;
  s.Case("rank").Input({2, 3}).With(options("kernel: 2")).Fails("expected 3 to 5 dimensions");
  s.Case("no_kernel").Input({2, 3, 4}).With(options("")).Fails("option \"kernel\": is missing");
  s.Case("three_numbers").Input({2, 3, 4, 4}).With(options("kernel: [1, 2, 3]")).Fails("expected 1 or 2 numbers");
  s.Case("zero_stride").Input({2, 3, 4}).With(options("kernel: 2 stride: 0")).Fails("\"stride\": expected between 1");
  s.Case("huge")
      .Input({2, 3, 4})
      .With(options("kernel: 2 dilation: 9223372036854775807"))
      .Fails("\"dilation\": expected");
  s.Case("too_many_taps")  // their product would be 2^63
      .Input({2, 3, 4, 4, 4})
      .With(options("kernel: 2097152 padding: SAME"))
      .Fails("expected windows of at most 2147483647 elements, found 2097152 x 2097152 x 2097152");
  s.Case("too_large")
      .Input({2, 3, 4})
      .With(options("kernel: 5"))
      .Fails("a window of 5 with dilation 1 does not fit axis 2");
  s.Case("too_much_padding")
      .Input({2, 3, 9})
      .With(options("kernel: 3 pad: 2"))
      .Fails("expected at most half of the window");
  s.Case("steps_over")
      .Input({2, 3, 2})
      .With(options("kernel: 2 dilation: 3 pad: 1"))
      .Fails("\"dilation\": expected at most 2");
  s.Case("pad_and_same")
      .Input({2, 3, 4})
      .With(options("kernel: 2 pad: 1 padding: SAME"))
      .Fails("padding: EXPLICIT only");
}

void IndicesSamples(SampleBuilder& s) {
  GoodSamples(s);
  s.Case("known")
      .Input({1, 1, 1, 4})
      .Values({2, 3, 3, 1})
      .NoGradient()
      .With(proto::ParseOptions<proto::Pool>("kernel: [1, 3] stride: 1"))
      .Expect(0, {3, 3})
      .Expect(1, {1, 0});
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::PoolGrad>;
  const Options halves = options("pool { kernel: 2 } dim: [2, 3, 4, 6]");
  s.Case("halves").Bytes({2, 3, 2, 3}, 0, 4).Input({2, 3, 2, 3}).With(halves);
  s.Case("tiles").Bytes({2, 6, 4, 5}, 0, 4).Input({2, 6, 4, 5}).With(options("pool { kernel: 2 } dim: [2, 6, 9, 11]"));
  s.Case("tiles_over_a_block")
      .Bytes({1, 20, 3, 2}, 0, 6)
      .Input({1, 20, 3, 2})
      .With(options("pool { kernel: [2, 3] } dim: [1, 20, 7, 6]"));
  s.Case("known")
      .Bytes({1, 1, 1, 2})
      .Values({1, 0})
      .Input({1, 1, 1, 2})
      .Values({3, 4})
      .With(options("pool { kernel: [1, 2] stride: 1 } dim: [1, 1, 1, 3]"))
      .Expect(0, {0, 7, 0});
  s.Case("wrong_shape").Bytes({2, 3, 2, 3}, 0, 4).Input({2, 3, 2, 2}).With(halves).Fails("expected shape [2, 3, 2, 3]");
  s.Case("wrong_index").Int({2, 3, 2, 3}, 0, 4).Input({2, 3, 2, 3}).With(halves).Fails("is no index of these windows");
}

}  // namespace

SNUG_OPS(max_pool) {
  return {{.name = "max_pool",
           .doc = "y = the maximum of each window",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer<false>,
           .layer = Layer,
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = ForwardCost,
           .kernels = {Plain(Forward<MaximumPool>), OwnOnCuda(SNUG_IF_CUDA(Forward<MaximumPoolCuda>))},
           .samples = Samples},
          {.name = "max_pool_indices",
           .doc = "y = the maximum of each window, index = its number within the window (the first, if several)",
           .inputs = {{"x"}},
           .outputs = {{"y"}, {"index", PortType::kAny}},
           .infer = Infer<true>,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = ForwardCost,
           .kernels = {Plain(Forward<MaximumPool>), OwnOnCuda(SNUG_IF_CUDA(Forward<MaximumPoolCuda>))},
           .samples = IndicesSamples},
          {.name = "max_pool_grad",
           .doc = "dx = the sum of dy over the windows whose maximum it was",
           .inputs = {{"index", PortType::kAny}, {"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {Plain(Backward<MaximumUnpool>), OwnOnCuda(SNUG_IF_CUDA(Backward<MaximumUnpoolCuda>))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::max_pool
