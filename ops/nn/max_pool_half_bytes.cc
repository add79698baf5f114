// max_pool_half_bytes: max_pool_indices with the indices of two channels in a byte, for windows of at most 16 taps and
// channels in groups of 16. The pass half_byte_indices puts it in its place where the channels of a pixel lie
// side by side.
#include <absl/strings/str_cat.h>

#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "ops/kernels/pool/index_lanes.h"
#include "ops/kernels/pool/infer.h"
#include "ops/kernels/pool/pool.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::max_pool_half_bytes {
namespace {

absl::Status CheckHalves(const InferContext& c, const PoolGeometry& g, int64_t channels) {
  if (g.window() > kMostHalfByteTaps) {
    return c.OptionError(
        "kernel", absl::StrCat("expected windows of at most ", kMostHalfByteTaps, " elements, found ", g.window()));
  }
  if (channels % kHalfByteGroup != 0) {
    return c.InputError(0, absl::StrCat("expected a multiple of ", kHalfByteGroup, " channels, found ", channels));
  }
  return absl::OkStatus();
}

Shape ShapeOfHalves(const Shape& y) {
  std::vector<int64_t> dims(y.dims().begin(), y.dims().end());
  dims[1] /= 2;
  return Shape(dims);
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
  const ValueType& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakePoolGeometry(c.options<proto::Pool>(), x.shape, x.layout));
  SNUG_RETURN_IF_ERROR(CheckHalves(c, g, x.shape[1]));
  const Shape y = PooledShape(g, x.shape);
  c.SetOutput(0, x.dtype, y, x.layout);
  c.SetOutput(1, DType::kUint8, ShapeOfHalves(y), x.layout);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<proto::PoolGrad>();
  const ValueType& dy = c.input(1);
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(options));
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, MakePoolGeometry(options.pool(), x, dy.layout));
  SNUG_RETURN_IF_ERROR(CheckHalves(c, g, x[1]));
  const Shape y = PooledShape(g, x);
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, y));
  SNUG_RETURN_IF_ERROR(c.CheckShape(0, ShapeOfHalves(y)));
  c.SetOutput(0, dy.dtype, x, dy.layout);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("max_pool_half_bytes_grad", {g.output(1), g.output_grad(0)}, WithPoolAndInputShape(g)));
  return g.status();
}

absl::StatusOr<PoolGeometry> ForwardGeometry(const NodeTypes& t) {
  return MakePoolGeometry(t.options.Get<proto::Pool>(), t.input(0).shape, t.input(0).layout);
}
absl::StatusOr<PoolGeometry> BackwardGeometry(const NodeTypes& t) {
  return MakePoolGeometry(t.options.Get<proto::PoolGrad>().pool(), t.output(0).shape, t.output(0).layout);
}

template <auto kGeometry>
absl::Status Prepare(PrepareContext& c) {
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, kGeometry(c.types()));
  c.SetWorkspaceBytes(HalfByteIndexWorkspace(g));
  return absl::OkStatus();
}

template <auto kGeometry, MaximumPoolFn run>
absl::Status Run(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, kGeometry(k.types()));
  return run(k, g);
}

// As for max_pool: one comparison for each tap of each window.
Cost ForwardCost(const NodeTypes& t) {
  const absl::StatusOr<PoolGeometry> g = ForwardGeometry(t);
  return {.flops = static_cast<double>(t.output(0).num_elements()) * static_cast<double>(g.ok() ? g->window() : 1)};
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Pool>;
  s.Case("resnet").Input({2, 64, 9, 11}).Distinct().With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("halves").Input({2, 48, 8, 6}).Distinct().With(options("kernel: 2"));
  s.Case("tiles_of_a_block").Input({1, 16, 6, 7}).Distinct().With(options("kernel: [2, 3]"));
  s.Case("tiles").Input({2, 80, 9, 5}).Distinct().With(options("kernel: 2"));
  s.Case("tiles_with_padding").Input({2, 32, 8, 11}).Distinct().With(options("kernel: 2 pad: 1"));
  s.Case("stride_1").Input({1, 48, 5, 9}).Distinct().With(options("kernel: 3 stride: 1 pad: 1"));
  s.Case("stride_1_dilation").Input({1, 16, 7, 19}).Distinct().With(options("kernel: 3 stride: 1 dilation: 2 pad: 1"));
  s.Case("gaps").Input({2, 16, 7, 8}).Distinct().With(options("kernel: 2 stride: 3"));
  s.Case("ceil_mode").Input({2, 112, 7, 8}).Distinct().With(options("kernel: 3 stride: 2 ceil_mode: true"));
  s.Case("sixteen_taps").Input({1, 32, 9, 10}).Distinct().With(options("kernel: 4 stride: 2 pad: 1"));
  s.Case("line").Input({2, 32, 9}).Distinct().With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("volume").Input({1, 16, 4, 5, 6}).Distinct().With(options("kernel: [2, 3, 2] stride: [1, 2, 2]"));
  // Channels 6 and 7 share a byte.
  std::vector<double> x(16 * 3, 0.0);
  std::vector<double> y(16, 0.0);
  std::vector<double> index(8, 0.0);
  for (const auto& [channel, largest] : {std::pair(0, 1), std::pair(6, 1), std::pair(7, 2)}) {
    x[static_cast<size_t>(channel * 3 + largest)] = y[static_cast<size_t>(channel)] = channel + 1;
    index[static_cast<size_t>(channel / 2)] += largest * (channel % 2 == 0 ? 1 : 16);
  }
  s.Case("known")
      .Input({1, 16, 1, 3})
      .Values(x)
      .NoGradient()
      .With(options("kernel: [1, 3]"))
      .Expect(0, y)
      .Expect(1, index);
  s.Case("no_group").Input({1, 24, 4, 4}).With(options("kernel: 2")).Fails("a multiple of 16 channels, found 24");
  s.Case("many_taps").Input({1, 16, 9, 9}).With(options("kernel: [3, 6]")).Fails("at most 16 elements, found 18");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::PoolGrad>;
  const Options halves = options("pool { kernel: 2 } dim: [2, 32, 4, 6]");
  s.Case("halves").Bytes({2, 16, 2, 3}, 0, 64).Input({2, 32, 2, 3}).With(halves);
  s.Case("known")  // of 8, one byte: what channels 2 and 3 have at their second and third element
      .Bytes({1, 8, 1, 1})
      .Values({0, 1 + 16 * 2, 0, 0, 0, 0, 0, 0})
      .Input({1, 16, 1, 1})
      .Values({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
      .With(options("pool { kernel: [1, 3] } dim: [1, 16, 1, 3]"))
      .Expect(0, {1, 0, 0, 2,  0, 0, 0,  3, 0, 0,  0, 4, 5,  0, 0, 6,  0, 0, 7,  0, 0, 8,  0, 0,
                  9, 0, 0, 10, 0, 0, 11, 0, 0, 12, 0, 0, 13, 0, 0, 14, 0, 0, 15, 0, 0, 16, 0, 0});
  s.Case("wrong_shape").Bytes({2, 16, 2, 3}, 0, 64).Input({2, 32, 2, 2}).With(halves).Fails("shape [2, 32, 2, 3]");
  s.Case("whole_bytes").Bytes({2, 32, 2, 3}, 0, 4).Input({2, 32, 2, 3}).With(halves).Fails("shape [2, 16, 2, 3]");
}

}  // namespace

SNUG_OPS(max_pool_half_bytes) {
  return {
      {.name = "max_pool_half_bytes",
       .doc = "y = the maximum of each window, index = its number within the window, those of two channels in a byte",
       .inputs = {{"x"}},
       .outputs = {{"y"}, {"index", PortType::kBytes}},
       .infer = Infer,
       .gradient = Gradient,
       .traits = {.layout = LayoutRule::kPrefers},
       .cost = ForwardCost,
       .kernels = {{.name = "plain",
                    .prepare = Prepare<ForwardGeometry>,
                    .run = Run<ForwardGeometry, MaximumPoolHalfBytes>}},
       .samples = Samples},
      {.name = "max_pool_half_bytes_grad",
       .doc = "dx = the sum of dy over the windows whose maximum it was",
       .inputs = {{"index", PortType::kBytes}, {"dy"}},
       .outputs = {{"dx"}},
       .infer = InferGrad,
       .traits = {.layout = LayoutRule::kPrefers},
       .kernels = {{.name = "plain",
                    .prepare = Prepare<BackwardGeometry>,
                    .run = Run<BackwardGeometry, MaximumUnpoolHalfBytes>}},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::max_pool_half_bytes
