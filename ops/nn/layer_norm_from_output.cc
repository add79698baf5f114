// Layer norm whose gradient reads what it gave, y, in place of what it was given: x' = (y - bias) / weight is what was
// normalised. A weight that is too small beside its bias for that (invertible.h) is an error of the forward pass, so
// that it comes before any update of the step. Only the pass gradients_from_outputs makes these.
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
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

namespace snug::core::ops::layer_norm_from_output {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::LayerNorm>(c));
  SNUG_RETURN_IF_ERROR(CheckDigits(c, 0));
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
  SNUG_RETURN_IF_ERROR(CheckDigits(c, 0));
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

}  // namespace

SNUG_OPS(layer_norm_from_output) {
  return {{.name = "layer_norm_invertible",
           .doc = "layer_norm, with an error where a weight is too small for the gradient from the output",
           .inputs = {{"x"}, {"weight", PortType::kFloat32, true}, {"bias", PortType::kFloat32, true}},
           .outputs = {{"y"}, {.name = "inv_std", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .cost = FlopsPerElement<8>,
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
           .cost = FlopsPerElement<14>,
           .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = BackwardCpu}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::layer_norm_from_output
