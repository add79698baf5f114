// dense: y = x w^T + b over the last axis; the leading axes count as rows. Its gradients are three products and, for
// the bias, a sum over rows. dense_fused applies an activation in the same sweep.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/activation.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernels/matmul/node.h"
#include "ops/kit/elementwise.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::dense {
namespace {

using proto::ParseOptions;

int64_t Rows(const Shape& shape) { return shape.Count(0, shape.rank() - 1); }
int64_t Width(const Shape& shape) { return shape[shape.rank() - 1]; }

absl::Status InferDense(InferContext& c, const proto::Dense& options) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  if (options.units() < 1) return c.OptionError("units", absl::StrCat("expected at least 1, found ", options.units()));
  const int last = c.shape(0).rank() - 1;
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, {options.units(), c.shape(0)[last]}));
  if (c.has_input(2)) SNUG_RETURN_IF_ERROR(c.CheckShape(2, {options.units()}));
  c.SetOutput(0, c.input(0).dtype, c.shape(0).WithDim(last, options.units()));
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) { return InferDense(c, c.options<proto::Dense>()); }
absl::Status InferFused(InferContext& c) { return InferDense(c, c.options<proto::FusedDense>().dense()); }

absl::Status InferGelu(InferContext& c) {
  SNUG_RETURN_IF_ERROR(Infer(c));
  c.SetOutput(1, c.input(0).dtype, c.shape(0).WithDim(c.shape(0).rank() - 1, c.options<proto::Dense>().units()));
  return absl::OkStatus();
}

absl::Status InferGradInput(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  SNUG_RETURN_IF_ERROR(c.CheckRank(1, 2, 2));
  const int last = c.shape(0).rank() - 1;
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, {c.shape(0)[last], c.shape(1)[1]}));
  c.SetOutput(0, c.input(0).dtype, c.shape(0).WithDim(last, c.shape(1)[1]));
  return absl::OkStatus();
}

absl::Status InferGradInputOf(InferContext& c) {  // the gradient of what is before an activation
  SNUG_RETURN_IF_ERROR(InferGradInput(c));
  return c.CheckShape(2, c.shape(0).WithDim(c.shape(0).rank() - 1, c.shape(1)[1]));
}

absl::Status InferGradWeight(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  SNUG_RETURN_IF_ERROR(c.CheckRank(1, 2, kMaxRank));
  const Shape& x = c.shape(0);
  const int64_t units = Width(c.shape(1));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, x.WithDim(x.rank() - 1, units)));
  c.SetOutput(0, c.input(0).dtype, {units, Width(x)});
  return absl::OkStatus();
}

absl::Status InferGradWeightBias(InferContext& c) {
  SNUG_RETURN_IF_ERROR(InferGradWeight(c));
  c.SetOutput(1, c.input(1).dtype, {Width(c.shape(1))});
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  const proto::Dense& options = c.options<proto::Dense>();
  if (c.num_inputs() != 1) {
    c.Fail(absl::InvalidArgumentError(absl::StrCat("expected 1 input (x), found ", c.num_inputs())));
    return c.status();
  }
  const Shape& x = c.type(c.input(0)).shape;
  if (x.rank() < 2 || options.units() < 1) {  // no parameter would have a shape, so inference has to say why
    c.Op("dense", {c.input(0), c.input(0)}, c.options_handle());
    return c.status();
  }
  const int64_t in = Width(x);
  std::vector<ValueId> inputs = {c.input(0)};
  inputs.push_back(
      c.Parameter({.name = "weight", .shape = {options.units(), in}, .fan_in = in, .fan_out = options.units()}));
  if (options.bias()) {
    inputs.push_back(
        c.Parameter({.name = "bias", .shape = {options.units()}, .fan_in = in, .fan_out = options.units()}));
  }
  c.SetOutput(0, c.Op("dense", std::move(inputs), c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {  // dx = dy w, dw = dy^T x, db = sum of dy over rows
  const ValueId dy = g.output_grad(0);
  if (g.wants(0)) g.SetInputGrad(0, g.Op("dense_grad_input", {dy, g.input(1)}));
  if (g.wants(1)) g.SetInputGrad(1, g.Op("dense_grad_weight", {g.input(0), dy}));
  if (g.wants(2)) g.SetInputGrad(2, SumToShape(g, dy, g.input_type(2).shape));
  return g.status();
}

MatMulNode Forward(const NodeTypes& types) {
  const Shape& w = types.input(1).shape;
  return {
      .m = Rows(types.input(0).shape), .n = w[0], .k = w[1], .transpose_b = true, .bias = types.has_input(2) ? 2 : -1};
}

MatMulNode ForwardFused(const NodeTypes& types) {
  MatMulNode node = Forward(types);
  node.activation = FromProto(types.options.Get<proto::FusedDense>().activation());
  return node;
}

MatMulNode ForwardGelu(const NodeTypes& types) {
  MatMulNode node = Forward(types);
  node.gelu = true;
  return node;
}

MatMulNode GradInput(const NodeTypes& types) {
  const Shape& w = types.input(1).shape;
  return {.m = Rows(types.input(0).shape), .n = w[1], .k = w[0]};
}

MatMulNode GradInputRelu(const NodeTypes& types) {
  MatMulNode node = GradInput(types);
  node.slope = SlopeOf::kRelu;
  node.slope_at = 2;
  return node;
}

MatMulNode GradInputGelu(const NodeTypes& types) {
  MatMulNode node = GradInput(types);
  node.slope = types.options.Get<proto::Gelu>().tanh() ? SlopeOf::kGeluByTanh : SlopeOf::kGelu;
  node.slope_at = 2;
  return node;
}

MatMulNode GradWeight(const NodeTypes& types) {  // a is dy, b is x
  const Shape& x = types.input(0).shape;
  return {.m = Width(types.input(1).shape), .n = Width(x), .k = Rows(x), .transpose_a = true, .a = 1, .b = 0};
}

MatMulNode GradWeightBias(const NodeTypes& types) {
  MatMulNode node = GradWeight(types);
  node.sums_a = true;
  return node;
}

Options FusedOptions(const Options& dense, Activation activation) {
  proto::FusedDense options;
  *options.mutable_dense() = dense.Get<proto::Dense>();
  options.set_activation(ToProto(activation));
  return proto::MakeOptions(options);
}

void Samples(SampleBuilder& s) {
  s.Case("plain").Input({5, 7}).Input({3, 7}).Input({3}).With(ParseOptions<proto::Dense>("units: 3"));
  s.Case("no_bias").Input({4, 19}).Input({33, 19}).With(ParseOptions<proto::Dense>("units: 33 bias: false"));
  s.Case("sequence").Input({2, 3, 17}).Input({18, 17}).Input({18}).With(ParseOptions<proto::Dense>("units: 18"));
  s.Case("one_of_each").Input({1, 1}).Input({1, 1}).Input({1}).With(ParseOptions<proto::Dense>("units: 1"));
  s.Case("wide").Input({65, 40}).Input({70, 40}).Input({70}).With(ParseOptions<proto::Dense>("units: 70"));
  s.Case("known")
      .Input({2, 2})
      .Values({1, 2, 3, 4})
      .Input({1, 2})
      .Values({10, 1})
      .Input({1})
      .Values({0.5})
      .With(ParseOptions<proto::Dense>("units: 1"))
      .Expect(0, {12.5, 34.5});
  s.Case("vector").Input({4}).Input({2, 4}).With(ParseOptions<proto::Dense>("units: 2")).Fails("dimensions");
  s.Case("no_units").Input({5, 7}).Input({3, 7}).Fails("option \"units\": expected at least 1, found 0");
  s.Case("wrong_weight")
      .Input({5, 7})
      .Input({7, 3})
      .With(ParseOptions<proto::Dense>("units: 3"))
      .Fails("input 1 \"weight\" [7, 3]: expected shape [3, 7]");
  s.Case("wrong_bias")
      .Input({5, 7})
      .Input({3, 7})
      .Input({4})
      .With(ParseOptions<proto::Dense>("units: 3"))
      .Fails("input 2 \"bias\" [4]: expected shape [3]");
}

void FusedSamples(SampleBuilder& s) {
  const auto fused = [&s](absl::string_view name, const char* options) {
    s.Case(name).Input({5, 19}).Input({18, 19}).Input({18}).With(ParseOptions<proto::FusedDense>(options));
  };
  fused("identity", "dense { units: 18 }");
  fused("relu", "dense { units: 18 } activation: RELU");
  fused("relu6", "dense { units: 18 } activation: RELU6");
  fused("sigmoid", "dense { units: 18 } activation: SIGMOID");
  fused("tanh", "dense { units: 18 } activation: TANH");
  // On CUDA: sums in two pieces, in rows of 16 bytes and others; so many results that a block has more of them.
  const auto relu = [&s](absl::string_view name, int64_t rows, int64_t in, int64_t units) {
    s.Case(name)
        .Input({rows, in})
        .Input({units, in})
        .Input({units})
        .With(ParseOptions<proto::FusedDense>(absl::StrCat("dense { units: ", units, " } activation: RELU").c_str()));
  };
  relu("long_sums", 18, 304, 20);
  relu("long_odd_sums", 3, 521, 17);
  relu("more_results", 130, 20, 260);
  relu("many_results", 260, 24, 272);
  s.Case("known")
      .Input({1, 2})
      .Values({1, 2})
      .Input({3, 2})
      .Values({1, 1, -1, -1, 4, 4})
      .Absent()
      .With(ParseOptions<proto::FusedDense>("dense { units: 3 } activation: RELU6"))
      .Expect(0, {3, 0, 6});
  s.Case("wrong_weight")
      .Input({5, 7})
      .Input({7, 3})
      .With(ParseOptions<proto::FusedDense>("dense { units: 3 }"))
      .Fails("expected shape [3, 7]");
}

void GeluSamples(SampleBuilder& s) {
  s.Case("plain").Input({5, 7}).Input({3, 7}).Input({3}).With(ParseOptions<proto::Dense>("units: 3"));
  s.Case("rows_of_16_bytes")
      .Input({2, 3, 17})
      .Input({16, 17})
      .Input({16})
      .With(ParseOptions<proto::Dense>("units: 16"));
  s.Case("no_bias").Input({4, 19}).Input({32, 19}).With(ParseOptions<proto::Dense>("units: 32 bias: false"));
  s.Case("known")
      .Input({1, 1})
      .Values({2})
      .Input({3, 1})
      .Values({0, 50, -50})
      .Input({3})
      .Values({0, 1, 1})
      .With(ParseOptions<proto::Dense>("units: 3"))
      .Expect(0, {0, 101, -99})
      .Expect(1, {0, 101, 0});
  s.Case("wrong_weight")
      .Input({5, 7})
      .Input({7, 3})
      .With(ParseOptions<proto::Dense>("units: 3"))
      .Fails("input 1 \"weight\" [7, 3]: expected shape [3, 7]");
}

void GradInputSamples(SampleBuilder& s) {
  s.Case("plain").Input({5, 3}).Input({3, 7});
  s.Case("sequence").Input({2, 3, 18}).Input({18, 33});
  s.Case("long_sums").Input({18, 304}).Input({304, 24});
  s.Case("more_results").Input({130, 20}).Input({20, 260});
  s.Case("many_results").Input({260, 5}).Input({5, 272});
  s.Case("wrong_weight").Input({5, 3}).Input({7, 3}).Fails("expected shape [3, 3]");
}

void GradInputReluSamples(SampleBuilder& s) {
  s.Case("plain").Input({5, 3}).Input({3, 7}).Input({5, 7});
  s.Case("sequence").Input({2, 3, 18}).Input({18, 32}).Input({2, 3, 32});
  s.Case("known")
      .Input({1, 1})
      .Values({3})
      .Input({1, 4})
      .Values({2, 4, 5, -6})
      .Input({1, 4})
      .Values({0, 1000, -1, 0.5})
      .Expect(0, {0, 12, 0, -18});
  s.Case("wrong_y").Input({5, 3}).Input({3, 7}).Input({5, 3}).Fails("expected shape [5, 7]");
}

void GradInputGeluSamples(SampleBuilder& s) {
  const auto by_tanh = [] { return ParseOptions<proto::Gelu>("tanh: true"); };
  s.Case("plain").Input({5, 3}).Input({3, 7}).Input({5, 7});
  s.Case("by_tanh").Input({5, 3}).Input({3, 7}).Input({5, 7}).With(by_tanh());
  s.Case("sequence").Input({2, 3, 18}).Input({18, 32}).Input({2, 3, 32});
  s.Case("many").Input({130, 300}).Input({300, 70}).Input({130, 70});
  s.Case("many_by_tanh").Input({130, 300}).Input({300, 70}).Input({130, 70}).With(by_tanh());
  s.Case("known")
      .Input({1, 1})
      .Values({3})
      .Input({1, 4})
      .Values({2, 4, 5, -6})
      .Input({1, 4})
      .Values({0, 1000, -1000, 1000})
      .Expect(0, {3, 12, 0, -18});
  s.Case("wrong_x").Input({5, 3}).Input({3, 7}).Input({5, 3}).Fails("expected shape [5, 7]");
}

void GradWeightSamples(SampleBuilder& s) {
  s.Case("plain").Input({5, 7}).Input({5, 3});
  s.Case("sequence").Input({2, 3, 33}).Input({2, 3, 18});
  s.Case("many_rows").Input({600, 33}).Input({600, 18});
  s.Case("many_narrow_rows").Input({300, 7}).Input({300, 3});
  s.Case("other_rows").Input({5, 7}).Input({4, 3}).Fails("expected shape [5, 3]");
}

void GradWeightBiasSamples(SampleBuilder& s) {
  s.Case("plain").Input({5, 7}).Input({5, 3});
  s.Case("sequence").Input({2, 3, 33}).Input({2, 3, 18});
  s.Case("many_rows").Input({600, 33}).Input({600, 18});
  s.Case("rows_of_16_bytes").Input({290, 40}).Input({290, 24});
  s.Case("more_results").Input({20, 260}).Input({20, 132});
  s.Case("many_results").Input({6, 272}).Input({6, 261});
  s.Case("known")
      .Input({2, 1})
      .Values({1, 2})
      .Input({2, 2})
      .Values({3, 4, 5, 7})
      .Expect(0, {13, 18})
      .Expect(1, {8, 11});
  s.Case("other_rows").Input({5, 7}).Input({4, 3}).Fails("expected shape [5, 3]");
}

}  // namespace

SNUG_OPS(dense) {
  return {{.name = "dense",
           .doc = "y = x w^T + b over the last axis; w: [units, in]",
           .inputs = {{"x"}, {"weight"}, {.name = "bias", .optional = true}},
           .outputs = {{"y"}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .cost = MatMulCost<Forward, true>,
           .with_activation = {"dense_fused", FusedOptions},
           .kernels = MatMulKernels(Forward),
           .samples = Samples},
          {.name = "dense_fused",
           .doc = "y = activation(x w^T + b)",
           .inputs = {{"x"}, {"weight"}, {.name = "bias", .optional = true}},
           .outputs = {{"y"}},
           .infer = InferFused,
           .cost = MatMulCost<ForwardFused, true>,
           .kernels = MatMulKernels(ForwardFused),
           .samples = FusedSamples},
          {.name = "dense_gelu",
           .doc = "y = x w^T + b, and gelu (by tanh) of y",
           .inputs = {{"x"}, {"weight"}, {.name = "bias", .optional = true}},
           .outputs = {{"y"}, {"gelu"}},
           .infer = InferGelu,
           .cost = MatMulCost<ForwardGelu, true>,
           .kernels = CudaFusedMatMulKernels(ForwardGelu),
           .samples = GeluSamples},
          {.name = "dense_grad_input",
           .doc = "dx = dy w",
           .inputs = {{"dy"}, {"weight"}},
           .outputs = {{"dx"}},
           .infer = InferGradInput,
           .cost = MatMulCost<GradInput, false>,
           .kernels = MatMulKernels(GradInput),
           .samples = GradInputSamples},
          {.name = "dense_grad_input_relu",
           .doc = "dx = dy w where y > 0, else 0",
           .inputs = {{"dy"}, {"weight"}, {"y"}},
           .outputs = {{"dx"}},
           .infer = InferGradInputOf,
           .cost = MatMulCost<GradInputRelu, false>,
           .kernels = MatMulKernelsWithSlope(GradInputRelu, /*on_cuda=*/true),
           .samples = GradInputReluSamples},
          {.name = "dense_grad_input_gelu",
           .doc = "dx = dy w gelu'(x)",
           .inputs = {{"dy"}, {"weight"}, {"x"}},
           .outputs = {{"dx"}},
           .infer = InferGradInputOf,
           .cost = MatMulCost<GradInputGelu, false>,
           .kernels = MatMulKernelsWithSlope(GradInputGelu, /*on_cuda=*/false),
           .samples = GradInputGeluSamples},
          {.name = "dense_grad_weight",
           .doc = "dw = dy^T x, summed over rows",
           .inputs = {{"x"}, {"dy"}},
           .outputs = {{"dw"}},
           .infer = InferGradWeight,
           .cost = MatMulCost<GradWeight, false>,
           .kernels = MatMulKernels(GradWeight, /*by_weights=*/false),
           .samples = GradWeightSamples},
          {.name = "dense_grad_weight_bias",
           .doc = "dw = dy^T x and db = dy, both summed over rows",
           .inputs = {{"x"}, {"dy"}},
           .outputs = {{"dw"}, {"db"}},
           .infer = InferGradWeightBias,
           .cost = MatMulCost<GradWeightBias, false>,
           .kernels = CudaFusedMatMulKernels(GradWeightBias),
           .samples = GradWeightBiasSamples}};
}

}  // namespace snug::core::ops::dense
