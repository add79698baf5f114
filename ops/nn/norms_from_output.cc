// Norms whose gradients read what they gave, y, in place of what they were given: x' = (y - bias) / weight is what was
// normalised. A weight that is too small beside its bias for that (invertible.h) is an error of the forward pass, so
// that it comes before any update of the step. Only the pass gradients_from_outputs makes these.
//
// layer_norm_invertible is layer_norm with that check; its gradient is layer_norm's (layer_norm_rows.h).
//
// batch_norm_output_scales makes batch_norm_grad compute the gradient of a batch norm from y: that is a value whose
// mean is the bias and whose deviation is |weight|. With these as statistics batch_norm_grad finds sign(weight) x', in
// which dx is even and dweight odd: dx is right if the weight it is told keeps weight inv_std as it was, and so is
// dweight times sign(weight). The updates' gate reads the scales, which puts the check before them.
//
// The digits that y lacks leave x' a mean beside 0, the offset. In dweight = sum(dy x') it meets what all dy have in
// common, which may be a thousand times what they differ by (behind a mean over the image, say), and which x' with a
// mean of 0 would take no notice of. So offset dbias is taken off dweight again (passes/gradients_from_outputs.cc).
#include <algorithm>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/nn/invertible.h"
#include "ops/nn/layer_norm_rows.h"
#include "ops/nn/norm_rows.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::norms_from_output {
namespace {

using proto::ParseOptions;

// x or y is rounded to 8 bits in bfloat16, of which none may be lost.
absl::Status CheckDType(const InferContext& c, int port = 0) {
  if (c.input(port).dtype != DType::kBFloat16) return absl::OkStatus();
  return c.InputError(port, "expected float32 or float64, whose digits suffice to find again what was normalised");
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::LayerNorm>(c));
  SNUG_RETURN_IF_ERROR(CheckDType(c));
  const ValueType& x = c.input(0);
  const int64_t axes = c.options<proto::LayerNorm>().axes();
  for (const int i : {1, 2}) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, ShapeOfRow(x.shape, axes)));
  }
  c.SetOutput(0, x);
  c.SetOutput(1, Float32PortType(x.dtype), ShapeOfRows(x.shape, axes));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::LayerNorm>(c));
  SNUG_RETURN_IF_ERROR(CheckDType(c));
  const ValueType& y = c.input(0);
  const int64_t axes = c.options<proto::LayerNorm>().axes();
  const Shape normalized = ShapeOfRow(y.shape, axes);
  for (const int i : {1, 2}) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, normalized));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(3, ShapeOfRows(y.shape, axes)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(4, y.shape));
  c.SetOutput(0, c.input(4));
  for (const int gradient : {1, 2}) c.SetOutput(gradient, Float32PortType(y.dtype), normalized);
  return absl::OkStatus();
}

absl::Status InferScales(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 3, 0, 3));
  SNUG_RETURN_IF_ERROR(CheckDType(c, 3));
  for (const int output : {0, 1, 2}) c.SetOutput(output, c.input(0));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const auto optional = [&g](int i) { return g.has_input(i) ? g.input(i) : ValueId(); };
  g.SetInputGrads(g.Ops("layer_norm_from_output_grad",
                        {g.output(0), optional(1), optional(2), g.output(1), g.output_grad(0)}, g.options_handle()));
  return g.status();
}

absl::Status PrepareGrad(PrepareContext& c) {  // makes room for the chunks' sums, the bias and 1 / weight
  const ValueType& y = c.types().input(0);
  const NormRows view(y, c.options<proto::LayerNorm>().axes());
  c.SetWorkspaceBytes((layer_norm_rows::PartialSums(view) + 2 * view.width) * SizeOf(Float32PortType(y.dtype)));
  return absl::OkStatus();
}

absl::Status PrepareScales(PrepareContext& c) {  // makes room for a sum of each channel
  c.SetWorkspaceBytes(ChannelView(c.types().input(3)).channels * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

Cost CostOfScales(const NodeTypes& types) {
  return {.flops = 2.0 * static_cast<double>(types.input(3).num_elements())};
}
Cost CostOfNode(const NodeTypes& types) { return {.flops = 8.0 * static_cast<double>(types.input(0).num_elements())}; }
Cost CostOfGrad(const NodeTypes& types) { return {.flops = 14.0 * static_cast<double>(types.input(0).num_elements())}; }

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) -> absl::Status {
    const auto& options = k.options<proto::LayerNorm>();
    const layer_norm_rows::ForwardCall<decltype(zero)> call(k, options.axes(), options.epsilon(),
                                                            /*keeps_means=*/false);
    SNUG_RETURN_IF_ERROR(CheckInvertible(call.weight, call.bias, call.rows.width));
    layer_norm_rows::Forward(k, call);
    return absl::OkStatus();
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const NormRows rows(k.input_type(0), k.options<proto::LayerNorm>().axes());
    const S* weight = k.has_input(1) ? k.input<S>(1) : nullptr;
    const S* given_bias = k.has_input(2) ? k.input<S>(2) : nullptr;
    S* bias = k.workspace<S>() + layer_norm_rows::PartialSums(rows);
    S* inv_weight = bias + rows.width;
    for (int64_t i = 0; i < rows.width; ++i) {
      bias[i] = given_bias != nullptr ? given_bias[i] : S(0);
      inv_weight[i] = weight != nullptr ? S(1) / weight[i] : S(1);
    }
    const layer_norm_rows::BackwardCall<T, layer_norm_rows::Known::kOutput> call = {.known = k.input<T>(0),
                                                                                    .weight = weight,
                                                                                    .means = nullptr,
                                                                                    .inv_stds = k.input<S>(3),
                                                                                    .bias = bias,
                                                                                    .inv_weight = inv_weight,
                                                                                    .dy = k.input<T>(4),
                                                                                    .dx = k.output<T>(0),
                                                                                    .rows = rows};
    layer_norm_rows::Backward(k, call, k.workspace<S>());
    return absl::OkStatus();
  });
}

// Sets the sums of y - bias of each channel, each of which is added up in a sequence that its shape alone tells.
template <class S>
void SumDifferences(int threads, const ChannelView& view, const S* y, const S* bias, double* sums) {
  constexpr int64_t kGroup = 16;  // channels, which fill a cache line where they lie side by side
  constexpr int64_t kLanes = 8;   // sums side by side in one plane
  const int64_t groups = (view.channels + kGroup - 1) / kGroup;
  const int64_t chunk = kGroup * ((groups + threads - 1) / std::max(threads, 1));
  ParallelFor(threads, view.channels, chunk, [=](int64_t begin, int64_t end) {
    std::fill(sums + begin, sums + end, 0.0);
    for (int64_t n = 0; n < view.outer; ++n) {
      if (view.inner == 1) {
        const S* const row = y + n * view.channels;
        for (int64_t c = begin; c < end; ++c)
          sums[c] += static_cast<double>(row[c] - (bias != nullptr ? bias[c] : S(0)));
        continue;
      }
      for (int64_t c = begin; c < end; ++c) {
        const S* const plane = y + (n * view.channels + c) * view.inner;
        const S centre = bias != nullptr ? bias[c] : S(0);
        double lanes[kLanes] = {};
        int64_t i = 0;
        for (; i + kLanes <= view.inner; i += kLanes) {
          for (int64_t j = 0; j < kLanes; ++j) lanes[j] += static_cast<double>(plane[i + j] - centre);
        }
        for (; i < view.inner; ++i) lanes[0] += static_cast<double>(plane[i] - centre);
        for (const double lane : lanes) sums[c] += lane;
      }
    }
  });
}

template <class S>
absl::Status RunScales(const KernelContext& k) {
  const S* weight = k.input<S>(0);
  const S* bias = k.has_input(1) ? k.input<S>(1) : nullptr;
  const S* var = k.input<S>(2);
  S* scale = k.output<S>(0);
  S* variance = k.output<S>(1);
  S* offset = k.output<S>(2);
  const ChannelView view(k.input_type(3));
  const double epsilon = k.options<proto::BatchNorm>().epsilon();
  SNUG_RETURN_IF_ERROR(CheckInvertible(weight, bias, view.channels));
  auto* const sums = k.workspace<double>();
  SumDifferences(k.threads(), view, k.input<S>(3), bias, sums);
  for (int64_t i = 0; i < view.channels; ++i) {
    const auto w = static_cast<double>(weight[i]);
    scale[i] = static_cast<S>(w * std::fabs(w) / std::sqrt(static_cast<double>(var[i]) + epsilon));
    variance[i] = static_cast<S>(w * w);
    offset[i] = static_cast<S>(sums[i] / static_cast<double>(view.count()) / std::fabs(w));
  }
  return absl::OkStatus();
}

absl::Status ScalesKernel(const KernelContext& k) {
  return k.input_type(0).dtype == DType::kFloat64 ? RunScales<double>(k) : RunScales<float>(k);
}

void Samples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x, const Shape& normalized) {
    s.Case(name)
        .With(ParseOptions<proto::LayerNorm>(options))
        .Input(x)
        .Only({DType::kFloat32, DType::kFloat64})
        .Input(normalized)
        .Range(0.5, 2)
        .Input(normalized);
  };
  affine("row", "", {5, 7}, {7});
  affine("sequence", "", {2, 3, 48}, {48});
  affine("wide", "", {3, 133}, {133});
  affine("two_axes", "axes: 2 epsilon: 0.01", {3, 4, 5}, {4, 5});
  affine("rows", "", {75, 3}, {3});
  affine("rows_of_a_tile", "", {33, 37}, {37});
  const auto floats = [&s](const char* name) -> Sample& {
    return s.Case(name).Only({DType::kFloat32, DType::kFloat64});
  };
  floats("no_affine").With(ParseOptions<proto::LayerNorm>("affine: false")).Input({5, 19});
  floats("no_bias").Input({5, 19}).Input({19}).Range(-2, -0.5);
  floats("known")
      .With(ParseOptions<proto::LayerNorm>("epsilon: 0"))
      .Input({2, 2})
      .Values({1, 3, 5, 5.5})
      .NoGradient()
      .Expect(0, {-1, 1, -1, 1})
      .Expect(1, {1, 4});
  floats("small_weight")
      .Input({2, 3})
      .Input({3})
      .Values({1, 0.0078125, -1})
      .NoGradient()
      .Input({3})
      .Values({8, 8, 8})
      .NoGradient();
  floats("weight_beside_bias")
      .Input({2, 3})
      .Input({3})
      .Values({1, 0.0078125, -1})
      .Input({3})
      .Values({8, 8.125, 8})
      .FailsAtRun("weight[1] is 0.0078125 beside bias[1] 8.125: expected at least 1/1024 of it");
  floats("weight_of_zero")
      .Input({2, 3})
      .Input({3})
      .Values({1, 2, 0})
      .Input({3})
      .Values({0, 0, 0})
      .FailsAtRun(
          "weight[2] is 0, so that what was normalised does not follow from the output; leave out "
          "gradients-from-outputs");
  s.Case("bfloat16").Only({DType::kBFloat16}).Input({5, 7}).Fails("expected float32 or float64");
  s.Case("weight").Input({5, 7}).Only({DType::kFloat32}).Input({5}).Fails("input 1 \"weight\" [5]: expected shape [7]");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& y, const Shape& normalized,
                           const Shape& rows) {
    s.Case(name)
        .With(ParseOptions<proto::LayerNorm>(options))
        .Input(y)
        .Only({DType::kFloat32, DType::kFloat64})
        .Input(normalized)
        .Range(0.5, 2)
        .Input(normalized)
        .Input(rows)
        .Range(0.5, 2)
        .Input(y);
  };
  affine("row", "", {5, 7}, {7}, {5});
  affine("rows_of_a_tile", "", {33, 37}, {37}, {33});
  affine("wide", "", {3, 133}, {133}, {3});
  affine("two_axes", "axes: 2", {3, 4, 5}, {4, 5}, {3});
  affine("chunks", "", {75, 1100}, {1100}, {75});
  s.Case("no_affine")
      .Only({DType::kFloat32, DType::kFloat64})
      .Input({5, 19})
      .Absent()
      .Absent()
      .Input({5})
      .Range(0.5, 2)
      .Input({5, 19});
  s.Case("rows_of_inv_std")
      .Only({DType::kFloat32})
      .Input({5, 7})
      .Input({7})
      .Input({7})
      .Input({7})
      .Input({5, 7})
      .Fails("expected shape [5]");
}

void ScalesSamples(SampleBuilder& s) {
  const auto floats = [&s](const char* name) -> Sample& {
    return s.Case(name).Only({DType::kFloat32, DType::kFloat64});
  };
  floats("channels").Input({37}).Range(0.5, 2).Input({37}).Input({37}).Range(0.1, 1).Input({5, 37});
  floats("planes").Input({19}).Range(0.5, 2).Input({19}).Input({19}).Range(0.1, 1).Input({3, 19, 5, 7});
  floats("known")
      .With(ParseOptions<proto::BatchNorm>("epsilon: 1"))
      .Input({2})
      .Values({2, -3})
      .Input({2})
      .Values({0, 100})
      .Input({2})
      .Values({3, 8})
      .Input({2, 2})
      .Values({1, 100, 5, 97})
      .Expect(0, {2, -3})
      .Expect(1, {4, 9})
      .Expect(2, {1.5, -0.5});
  floats("weight_of_zero")
      .Input({2})
      .Values({2, 0})
      .Absent()
      .Input({2})
      .Range(0.1, 1)
      .Input({3, 2})
      .FailsAtRun("weight[1] is 0, so that what was normalised does not follow from the output");
  floats("weight_beside_bias")
      .Input({2})
      .Values({0.0078125, 1})
      .Input({2})
      .Values({-8.125, 0})
      .Input({2})
      .Range(0.1, 1)
      .Input({3, 2})
      .FailsAtRun("weight[0] is 0.0078125 beside bias[0] -8.125: expected at least 1/1024 of it");
  floats("shape").Input({5}).Input({5}).Input({4}).Input({3, 5}).Fails("expected shape [5]");
  s.Case("bfloat16")
      .Only({DType::kBFloat16})
      .Input({5})
      .Input({5})
      .Input({5})
      .Input({3, 5})
      .Fails("expected float32 or float64");
}

}  // namespace

SNUG_OPS(norms_from_output) {
  return {{.name = "layer_norm_invertible",
           .doc = "layer_norm, with an error where a weight is too small for the gradient from the output",
           .inputs = {{"x"}, {"weight", PortType::kFloat32, true}, {"bias", PortType::kFloat32, true}},
           .outputs = {{"y"}, {.name = "inv_std", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .cost = CostOfNode,
           .kernels = {Plain(ForwardCpu)},
           .samples = Samples},
          {.name = "layer_norm_from_output_grad",
           .doc = "dx, dweight, dbias of layer_norm from y: x' = (y - bias) / weight",
           .inputs = {{"y"},
                      {"weight", PortType::kFloat32, true},
                      {"bias", PortType::kFloat32, true},
                      {"inv_std", PortType::kFloat32},
                      {"dy"}},
           .outputs = {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
           .cost = CostOfGrad,
           .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = BackwardCpu}},
           .samples = GradSamples},
          {.name = "batch_norm_output_scales",
           .doc = "batch_norm_grad's numbers for the output: scale = weight |weight| / sqrt(var + epsilon), variance = "
                  "weight^2; offset = mean(y - bias) / |weight|",
           .inputs =
               {{"weight", PortType::kFloat32}, {"bias", PortType::kFloat32, true}, {"var", PortType::kFloat32}, {"y"}},
           .outputs = {{.name = "scale", .type = PortType::kFloat32, .no_gradient = true},
                       {.name = "variance", .type = PortType::kFloat32, .no_gradient = true},
                       {.name = "offset", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = InferScales,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfScales,
           .kernels = {{.name = "plain", .prepare = PrepareScales, .run = ScalesKernel}},
           .samples = ScalesSamples}};
}

}  // namespace snug::core::ops::norms_from_output
