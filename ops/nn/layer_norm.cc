// layer_norm: normalises each row (the last `axes` axes) by its own mean and variance; and its gradient. The loops are
// in layer_norm_rows.h.
#include <vector>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/layer_context.h"
#include "ops/nn/layer_norm_rows.h"
#include "ops/nn/norm_rows.h"
#include "ops/nn/rows_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::layer_norm {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::LayerNorm>(c));
  const ValueType& x = c.input(0);
  const int64_t axes = c.options<proto::LayerNorm>().axes();
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, ShapeOfRow(x.shape, axes)));
  }
  c.SetOutput(0, x);
  for (const int statistic : {1, 2}) c.SetOutput(statistic, Float32PortType(x.dtype), ShapeOfRows(x.shape, axes));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRowNorm<proto::LayerNorm>(c));
  const ValueType& x = c.input(0);
  const int64_t axes = c.options<proto::LayerNorm>().axes();
  const Shape normalized = ShapeOfRow(x.shape, axes);
  if (c.has_input(1)) SNUG_RETURN_IF_ERROR(c.CheckShape(1, normalized));
  for (const int statistic : {2, 3}) SNUG_RETURN_IF_ERROR(c.CheckShape(statistic, ShapeOfRows(x.shape, axes)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(4, x.shape));
  c.SetOutput(0, c.input(4));
  for (const int gradient : {1, 2}) c.SetOutput(gradient, Float32PortType(x.dtype), normalized);
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  const auto& options = c.options<proto::LayerNorm>();
  std::vector<ValueId> inputs = c.inputs();
  const bool valid = inputs.size() == 1 && options.axes() >= 1 && options.axes() < c.type(inputs[0]).shape.rank();
  if (valid && options.affine()) {  // otherwise shape inference says what is wrong
    c.AppendScaleAndShift(ShapeOfRow(c.type(inputs[0]).shape, options.axes()), &inputs);
  }
  c.SetOutput(0, c.Op("layer_norm", inputs, c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads =
      g.Ops("layer_norm_grad",
            {g.input(0), g.has_input(1) ? g.input(1) : ValueId(), g.output(1), g.output(2), g.output_grad(0)},
            g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

absl::Status PrepareGrad(PrepareContext& c) {  // makes room for the chunks' sums
  const ValueType& x = c.types().input(0);
  const NormRows view(x, c.options<proto::LayerNorm>().axes());
  c.SetWorkspaceBytes(layer_norm_rows::PartialSums(view) * SizeOf(Float32PortType(x.dtype)));
  return absl::OkStatus();
}

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    const auto& options = k.options<proto::LayerNorm>();
    layer_norm_rows::Forward(
        k, layer_norm_rows::ForwardCall<decltype(zero)>(k, options.axes(), options.epsilon(), /*keeps_means=*/true));
    return absl::OkStatus();
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const layer_norm_rows::BackwardCall<T, layer_norm_rows::Known::kInput> call = {
        .known = k.input<T>(0),
        .weight = k.has_input(1) ? k.input<S>(1) : nullptr,
        .means = k.input<S>(2),
        .inv_stds = k.input<S>(3),
        .bias = nullptr,
        .inv_weight = nullptr,
        .dy = k.input<T>(4),
        .dx = k.output<T>(0),
        .rows = NormRows(k.input_type(0), k.options<proto::LayerNorm>().axes())};
    layer_norm_rows::Backward(k, call, k.workspace<S>());
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x, const Shape& normalized) -> Sample& {
    return s.Case(name)
        .With(ParseOptions<proto::LayerNorm>(options))
        .Input(x)
        .Input(normalized)
        .Range(0.5, 2)
        .Input(normalized);
  };
  affine("row", "", {5, 7}, {7});
  affine("sequence", "", {2, 3, 48}, {48});
  affine("wide", "", {3, 133}, {133});
  affine("two_axes", "axes: 2 epsilon: 0.01", {3, 4, 5}, {4, 5});
  affine("rows", "", {75, 3}, {3});
  affine("short_rows", "", {35, 10}, {10});
  affine("rows_of_a_tile", "", {33, 37}, {37});
  // On CUDA a warp holds a row, a block holds it, and a block streams it, 16 bytes at a time.
  affine("whole_packs", "", {3, 72}, {72});
  affine("row_of_a_block", "", {2, 1600}, {1600}).NoGradient();
  affine("long_row", "", {2, 8704}, {8704}).NoGradient();
  s.Case("no_affine").With(ParseOptions<proto::LayerNorm>("affine: false")).Input({5, 19});
  s.Case("no_bias").Input({5, 19}).Input({19});
  s.Case("far_from_zero").Input({3, 70}).Range(30, 32).Input({70}).Input({70}).Tolerance(2e-5, 5e-2);
  s.Case("known")
      .With(ParseOptions<proto::LayerNorm>("epsilon: 0"))
      .Input({2, 2})
      .Values({1, 3, 5, 5.5})
      .NoGradient()
      .Expect(0, {-1, 1, -1, 1})
      .Expect(1, {2, 5.25})
      .Expect(2, {1, 4});
  s.Case("vector").Input({5}).Fails("expected 2 to 8 dimensions");
  s.Case("axes")
      .With(ParseOptions<proto::LayerNorm>("axes: 2"))
      .Input({5, 7})
      .Fails("option \"axes\": expected 1 to 1 (the batch stays) for input [5, 7], found 2");
  s.Case("weight").Input({5, 7}).Input({5}).Fails("input 1 \"weight\" [5]: expected shape [7]");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x, const Shape& normalized,
                           const Shape& rows) {
    s.Case(name)
        .With(ParseOptions<proto::LayerNorm>(options))
        .Input(x)
        .Input(normalized)
        .Input(rows)
        .Range(-0.1, 0.1)
        .Input(rows)
        .Range(0.5, 2)
        .Input(x);
  };
  affine("row", "", {5, 7}, {7}, {5});
  affine("short_rows", "", {35, 10}, {10}, {35});
  affine("rows_of_a_tile", "", {33, 37}, {37}, {33});
  affine("wide", "", {3, 133}, {133}, {3});
  affine("two_axes", "axes: 2", {3, 4, 5}, {4, 5}, {3});
  affine("chunks", "", {75, 1100}, {1100}, {75});
  affine("whole_packs", "", {70, 72}, {72}, {70});
  affine("row_of_a_block", "", {2, 1600}, {1600}, {2});
  affine("long_row", "", {2, 8704}, {8704}, {2});
  // A warp holds one to four packs of a row in each thread, and does two rows in turn.
  affine("row_of_a_warp", "", {33, 256}, {256}, {33});
  affine("row_of_a_warp_2", "", {20, 376}, {376}, {20});
  affine("row_of_a_warp_3", "", {35, 504}, {504}, {35});
  affine("row_of_a_warp_4", "", {17, 768}, {768}, {17});
  affine("row_of_a_warp_5", "", {19, 1024}, {1024}, {19});
  s.Case("no_affine").Input({5, 19}).Absent().Input({5}).Input({5}).Range(0.5, 2).Input({5, 19});
  s.Case("mean").Input({5, 7}).Input({7}).Input({7}).Input({5}).Input({5, 7}).Fails("expected shape [5]");
}

}  // namespace

SNUG_OPS(layer_norm) {
  return {
      {.name = "layer_norm",
       .doc = "y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of each row",
       .inputs = {{"x"}, {"weight", PortType::kFloat32, true}, {"bias", PortType::kFloat32, true}},
       .outputs = {{"y"},
                   {.name = "mean", .type = PortType::kFloat32, .no_gradient = true},
                   {.name = "inv_std", .type = PortType::kFloat32, .no_gradient = true}},
       .infer = Infer,
       .layer = Layer,
       .gradient = Gradient,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .cost = FlopsPerElement<8>,
       .kernels = {Plain(ForwardCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                     const auto& options = k.options<proto::LayerNorm>();
                     const NormRows view(k.input_type(0), options.axes());
                     return LayerNormCuda(k, view.rows, view.width, options.epsilon());
                   }))},
       .samples = Samples},
      {.name = "layer_norm_grad",
       .doc = "dx, dweight, dbias of layer_norm",
       .inputs = {{"x"},
                  {"weight", PortType::kFloat32, true},
                  {"mean", PortType::kFloat32},
                  {"inv_std", PortType::kFloat32},
                  {"dy"}},
       .outputs = {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}},
       .infer = InferGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
       .cost = FlopsPerElement<14>,
       .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = BackwardCpu},
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                      const NormRows view(c.types().input(0), c.options<proto::LayerNorm>().axes());
                      c.SetWorkspaceBytes(LayerNormGradCudaWorkspace(view.rows, view.width, c.types().input(0).dtype));
                      return absl::OkStatus();
                    }),
                    .run = SNUG_IF_CUDA([](const KernelContext& k) {
                      const NormRows view(k.input_type(0), k.options<proto::LayerNorm>().axes());
                      return LayerNormGradCuda(k, view.rows, view.width);
                    })}},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::layer_norm
