// conv: convolution over 1 to 3 spatial dimensions, with groups, stride, dilation, padding and an optional bias. Also
// conv_grad_input and conv_grad_weight, its two gradients (bias_grad is the bias's), and conv_fused, which the fusion
// pass makes: it is forward only and has an activation in the same sweep. conv_grad_input is also what conv_transpose
// consists of, so it has gradients itself.
//
// The fast kernels on the CPU are our own for 3 x 3 and 5 x 5 taps, for depthwise ones, for few channels, and in part
// for 1 x 1 taps, gradients of weights and weights that are kept (ops/kernels/conv/own_rows.h), and oneDNN's for all
// others. Data keeps its layout, of which channels-last is fastest; for the library, weights and their gradient have
// the packed layout that it wants for each of the three products.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/activation/in_place.h"
#include "ops/kernels/conv/cuda.h"
#include "ops/kernels/conv/cuda_depthwise.h"
#include "ops/kernels/conv/onednn/row.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/plain.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/options.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::conv {
namespace {

using proto::MakeOptions;
using proto::ParseOptions;

// ---- options and shapes ----

const proto::Conv& ConvOf(const Options& options) {
  if (options.type() == proto::FusedConv::descriptor()->full_name()) return options.Get<proto::FusedConv>().conv();
  if (options.type() == proto::ConvGrad::descriptor()->full_name()) return options.Get<proto::ConvGrad>().conv();
  return options.Get<proto::Conv>();
}

// Returns the geometry of a node whose options inference has checked.
ConvGeometry GeometryOf(const NodeTypes& types, const Shape& x) {
  absl::StatusOr<ConvGeometry> g = MakeConvGeometry(ConvOf(types.options), x);
  SNUG_CHECK_OK(g.status());
  return *g;
}

absl::Status InferConv(InferContext& c, const proto::Conv& options) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 2 + kMaxSpatial));
  SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(options, c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, g.weight_shape()));
  if (c.has_input(2)) SNUG_RETURN_IF_ERROR(c.CheckShape(2, Shape({g.out_channels})));
  c.SetOutput(0, c.input(0).dtype, g.output_shape(), c.input(0).layout);
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) { return InferConv(c, c.options<proto::Conv>()); }
absl::Status InferFused(InferContext& c) { return InferConv(c, c.options<proto::FusedConv>().conv()); }

absl::Status InferGradInput(InferContext& c) {
  const auto& options = c.options<proto::ConvGrad>();
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 2 + kMaxSpatial));
  const Shape x(options.dim());
  if (x.rank() != c.shape(0).rank()) return c.InputError(0, absl::StrCat("expected the rank of ", x.ToString()));
  SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(options.conv(), x));
  SNUG_RETURN_IF_ERROR(c.CheckShape(0, g.output_shape()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, g.weight_shape()));
  c.SetOutput(0, c.input(0).dtype, x, c.input(0).layout);
  return absl::OkStatus();
}

absl::Status InferGradWeight(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 2 + kMaxSpatial));
  SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(c.options<proto::ConvGrad>().conv(), c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, g.output_shape()));
  c.SetOutput(0, c.input(0).dtype, g.weight_shape());
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  if (c.num_inputs() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected 1 input (x), found ", c.num_inputs()));
  }
  const auto& options = c.options<proto::Conv>();
  const Shape& x = c.type(c.input(0)).shape;
  if (x.rank() < 3 || x.rank() > 2 + kMaxSpatial) {
    return About({.kind = ErrorPart::Kind::kInput, .index = 0},
                 absl::InvalidArgumentError(
                     absl::StrCat("input 0 \"x\" ", x.ToString(),
                                  ": expected 3 to 5 dimensions (batch, channels, 1 to 3 spatial), found ", x.rank())));
  }
  SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(options, x));
  const int64_t fan_in = g.in_channels / g.groups * g.taps();
  const int64_t fan_out = g.out_channels / g.groups * g.taps();
  std::vector<ValueId> inputs = {
      c.input(0), c.Parameter({.name = "weight", .shape = g.weight_shape(), .fan_in = fan_in, .fan_out = fan_out})};
  if (options.bias()) {
    inputs.push_back(
        c.Parameter({.name = "bias", .shape = Shape({g.out_channels}), .fan_in = fan_in, .fan_out = fan_out}));
  }
  c.SetOutput(0, c.Op("conv", inputs, c.options_handle()));
  return c.status();
}

// ---- gradient ----

Options GradOptions(const proto::Conv& conv, const Shape& result) {
  proto::ConvGrad options;
  *options.mutable_conv() = conv;
  SetShapeOption(result, &options);
  return MakeOptions(options);
}

absl::Status Gradient(GradContext& g) {
  const auto& conv = g.options<proto::Conv>();
  const ValueId dy = g.output_grad(0);
  if (g.wants(0)) {
    g.SetInputGrad(0, g.Op("conv_grad_input", {dy, g.input(1)}, GradOptions(conv, g.input_type(0).shape)));
  }
  if (g.wants(1)) {
    g.SetInputGrad(1, g.Op("conv_grad_weight", {g.input(0), dy}, GradOptions(conv, g.input_type(1).shape)));
  }
  if (g.wants(2)) g.SetInputGrad(2, g.Op("bias_grad", {dy}, MakeOptions(proto::BiasAdd())));
  return g.status();
}

// It is linear in dy and in w. What flows back through it goes through the convolution.
absl::Status GradInputGradient(GradContext& g) {
  const proto::Conv& conv = g.options<proto::ConvGrad>().conv();
  const ValueId back = g.output_grad(0);
  if (g.wants(0)) g.SetInputGrad(0, g.Op("conv", {back, g.input(1)}, MakeOptions(conv)));
  if (g.wants(1)) {
    g.SetInputGrad(1, g.Op("conv_grad_weight", {back, g.input(0)}, GradOptions(conv, g.input_type(1).shape)));
  }
  return g.status();
}

// ---- cost ----

Cost ConvCost(const NodeTypes& types) {
  const double multiply_adds = GeometryOf(types, types.input(0).shape).multiply_adds();
  return {.flops = 2 * multiply_adds, .multiply_adds = multiply_adds};
}

Cost GradInputCost(const NodeTypes& types) {  // its multiply-adds count where it is a forward node: conv_transpose
  const double multiply_adds = GeometryOf(types, types.output(0).shape).multiply_adds();
  return {.flops = 2 * multiply_adds, .multiply_adds = multiply_adds};
}

Cost GradWeightCost(const NodeTypes& types) {
  return {.flops = 2 * GeometryOf(types, types.input(0).shape).multiply_adds()};
}

// ---- plain kernels ----

absl::Status PlainForward(const KernelContext& k, Activation activation) {
  const ConvGeometry g = GeometryOf(k.types(), k.input_type(0).shape);
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* bias = k.has_input(2) ? k.input<T>(2) : nullptr;
    PlainConv(k.threads(), g, k.input_type(0), k.output_type(0), k.input<T>(0), k.input<T>(1), bias, k.output<T>(0));
    ActivateInPlace(k.threads(), k.output_type(0).num_elements(), activation, k.output<T>(0));
    return absl::OkStatus();
  });
}

absl::Status ConvCpu(const KernelContext& k) { return PlainForward(k, Activation::kIdentity); }
absl::Status FusedCpu(const KernelContext& k) {
  return PlainForward(k, FromProto(k.options<proto::FusedConv>().activation()));
}

absl::Status GradInputCpu(const KernelContext& k) {
  const ConvGeometry g = GeometryOf(k.types(), k.output_type(0).shape);
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    PlainConvGradInput(k.threads(), g, k.output_type(0), k.input_type(0), k.input<T>(0), k.input<T>(1), k.output<T>(0));
    return absl::OkStatus();
  });
}

absl::Status GradWeightCpu(const KernelContext& k) {
  const ConvGeometry g = GeometryOf(k.types(), k.input_type(0).shape);
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    PlainConvGradWeight(k.threads(), g, k.input_type(0), k.input_type(1), k.input<T>(0), k.input<T>(1), k.output<T>(0));
    return absl::OkStatus();
  });
}

ConvNode ForwardNode(const NodeTypes& t) { return {GeometryOf(t, t.input(0).shape), Activation::kIdentity}; }
ConvNode FusedNode(const NodeTypes& t) {
  return {GeometryOf(t, t.input(0).shape), FromProto(t.options.Get<proto::FusedConv>().activation())};
}
ConvNode GradInputNode(const NodeTypes& t) { return {GeometryOf(t, t.output(0).shape)}; }
ConvNode GradWeightNode(const NodeTypes& t) { return {GeometryOf(t, t.input(0).shape)}; }

// ---- kernels ----

std::vector<KernelRow> Kernels(KernelFn plain, ConvPart part, DescribeConv describe) {
  std::vector<KernelRow> rows = {WinogradConvRow(part, describe), DepthwiseConvRow(part, describe)};
  if (part != ConvPart::kGradInput) rows.push_back(PhasesConvRow(part, describe));
  rows.push_back(SpansConvRow(part, describe));
  if (part == ConvPart::kGradWeight) {
    rows.push_back(TallConvRow(describe));
    rows.push_back(PatchesConvRow(describe));
  }
  rows.push_back(ProductConvRow(part, describe));
  if (part == ConvPart::kForward) rows.push_back(TapsConvRow(describe));
#if SNUG_HAS_ONEDNN
  rows.push_back(OneDnnConvRow(part, describe));
#endif
  rows.push_back(Plain(std::move(plain)));
#if SNUG_HAS_CUDA
  if (part != ConvPart::kForward) rows.push_back(DepthwiseCudaRow(part, describe));
  rows.push_back(CudnnConvRow(part, describe));
  rows.push_back(OwnCudaConvRow(part, describe));
#endif
  return rows;
}

// ---- samples ----

// A convolution that is tried forward and in both gradients.
struct ConvCase {
  const char* name;
  const char* options;
  Shape x, w, y;
};

const std::vector<ConvCase>& ConvCases() {
  static const auto* cases = new std::vector<ConvCase>{
      {"1d", "filters: 5 kernel: 3", {2, 4, 9}, {5, 4, 3}, {2, 5, 7}},
      {"1d_dilated", "filters: 3 kernel: 3 dilation: 2 pad: 2", {2, 2, 11}, {3, 2, 3}, {2, 3, 11}},
      {"3x3", "filters: 5 kernel: 3 pad: 1", {2, 3, 6, 7}, {5, 3, 3, 3}, {2, 5, 6, 7}},
      {"1x1", "filters: 20 kernel: 1", {2, 17, 4, 5}, {20, 17, 1, 1}, {2, 20, 4, 5}},
      {"strided", "filters: 4 kernel: 3 stride: 2 pad: 1", {2, 3, 7, 6}, {4, 3, 3, 3}, {2, 4, 4, 3}},
      {"strided_1x1", "filters: 18 kernel: 1 stride: 2", {1, 16, 5, 6}, {18, 16, 1, 1}, {1, 18, 3, 3}},
      {"strided_1x1_1d", "filters: 18 kernel: 1 stride: 3", {2, 16, 8}, {18, 16, 1}, {2, 18, 3}},
      {"strided_1x1_of_few_channels", "filters: 7 kernel: 1 stride: 2", {3, 5, 12, 12}, {7, 5, 1, 1}, {3, 7, 6, 6}},
      {"strided_1x1_1d_of_few_channels", "filters: 12 kernel: 1 stride: 3", {5, 9, 63}, {12, 9, 1}, {5, 12, 21}},
      {"1x1_of_odd_filters", "filters: 7 kernel: 1", {1, 24, 6, 10}, {7, 24, 1, 1}, {1, 7, 6, 10}},
      {"strided_1x1_3d",
       "filters: 17 kernel: 1 stride: [2, 1, 3]",
       {1, 16, 3, 4, 7},
       {17, 16, 1, 1, 1},
       {1, 17, 2, 4, 3}},
      {"uneven",
       "filters: 3 kernel: [3, 2] stride: [1, 3] dilation: [2, 1] pad: [2, 1]",
       {2, 2, 7, 8},
       {3, 2, 3, 2},
       {2, 3, 7, 3}},
      {"same", "filters: 4 kernel: 4 padding: SAME", {1, 2, 5, 6}, {4, 2, 4, 4}, {1, 4, 5, 6}},
      {"same_strided", "filters: 4 kernel: 3 stride: 2 padding: SAME", {1, 2, 6, 7}, {4, 2, 3, 3}, {1, 4, 3, 4}},
      {"valid", "filters: 2 kernel: 3 padding: VALID", {1, 2, 4, 5}, {2, 2, 3, 3}, {1, 2, 2, 3}},
      {"grouped", "filters: 6 kernel: 3 groups: 2 pad: 1", {2, 4, 5, 5}, {6, 2, 3, 3}, {2, 6, 5, 5}},
      {"depthwise", "kernel: 3 depthwise: true pad: 1", {2, 19, 6, 5}, {19, 1, 3, 3}, {2, 19, 6, 5}},
      {"depthwise_strided", "kernel: 3 stride: 2 depthwise: true pad: 1", {1, 32, 7, 8}, {32, 1, 3, 3}, {1, 32, 4, 4}},
      {"depthwise_wide", "kernel: 3 depthwise: true pad: 1", {2, 40, 9, 11}, {40, 1, 3, 3}, {2, 40, 9, 11}},
      {"depthwise_padded", "kernel: 3 depthwise: true pad: [0, 2]", {1, 16, 5, 6}, {16, 1, 3, 3}, {1, 16, 3, 8}},
      {"depthwise_same_strided",
       "kernel: 3 stride: 2 depthwise: true padding: SAME",
       {2, 24, 8, 14},
       {24, 1, 3, 3},
       {2, 24, 4, 7}},
      {"depthwise_5x3", "kernel: [5, 3] depthwise: true pad: [2, 1]", {2, 19, 7, 6}, {19, 1, 5, 3}, {2, 19, 7, 6}},
      {"depthwise_4x3_strided",
       "kernel: [4, 3] stride: 2 depthwise: true pad: 1",
       {1, 32, 10, 9},
       {32, 1, 4, 3},
       {1, 32, 5, 5}},
      {"depthwise_5x5", "kernel: 5 depthwise: true pad: 2", {2, 17, 7, 9}, {17, 1, 5, 5}, {2, 17, 7, 9}},
      {"depthwise_5x5_strided",
       "kernel: 5 stride: 2 depthwise: true padding: SAME",
       {1, 40, 8, 11},
       {40, 1, 5, 5},
       {1, 40, 4, 6}},
      {"depthwise_uneven",
       "kernel: [2, 3] stride: [1, 3] depthwise: true pad: [0, 1]",
       {2, 33, 5, 13},
       {33, 1, 2, 3},
       {2, 33, 4, 5}},
      {"depthwise_narrow", "kernel: 3 depthwise: true pad: [2, 1]", {3, 48, 1, 3}, {48, 1, 3, 3}, {3, 48, 3, 3}},
      {"depthwise_dilated",
       "kernel: 3 dilation: [2, 1] depthwise: true pad: [2, 1]",
       {2, 12, 9, 8},
       {12, 1, 3, 3},
       {2, 12, 9, 8}},
      {"depthwise_multiplied", "filters: 6 kernel: 2 depthwise: true", {1, 3, 4, 4}, {6, 1, 2, 2}, {1, 6, 3, 3}},
      {"whole_input", "filters: 20 kernel: 4", {3, 5, 4, 4}, {20, 5, 4, 4}, {3, 20, 1, 1}},
      {"many_channels", "filters: 40 kernel: 3 pad: 1", {2, 33, 5, 5}, {40, 33, 3, 3}, {2, 40, 5, 5}},
      {"one_channel", "filters: 6 kernel: 5 pad: 2", {2, 1, 8, 8}, {6, 1, 5, 5}, {2, 6, 8, 8}},
      {"1x1_tall", "filters: 40 kernel: 1", {2, 17, 16, 17}, {40, 17, 1, 1}, {2, 40, 16, 17}},
      {"winograd", "filters: 80 kernel: 3 pad: 1", {2, 64, 9, 6}, {80, 64, 3, 3}, {2, 80, 9, 6}},
      {"winograd_valid", "filters: 64 kernel: 3", {1, 64, 6, 7}, {64, 64, 3, 3}, {1, 64, 4, 5}},
      {"winograd_of_5_taps", "filters: 80 kernel: 5 pad: 2", {2, 64, 5, 7}, {80, 64, 5, 5}, {2, 80, 5, 7}},
      {"winograd_of_5_taps_valid", "filters: 64 kernel: 5 pad: [1, 0]", {1, 96, 6, 7}, {64, 96, 5, 5}, {1, 64, 4, 3}},
      {"winograd_in_steps", "filters: 80 kernel: 3 stride: 2 pad: 1", {2, 64, 9, 6}, {80, 64, 3, 3}, {2, 80, 5, 3}},
      {"3d", "filters: 3 kernel: 2 stride: [1, 2, 1] pad: 1", {1, 2, 3, 4, 5}, {3, 2, 2, 2, 2}, {1, 3, 4, 3, 6}},
      {"3d_grouped", "filters: 4 kernel: 3 groups: 2 pad: 1", {1, 4, 3, 3, 4}, {4, 2, 3, 3, 3}, {1, 4, 3, 3, 4}},
      {"narrow", "filters: 3 kernel: 5 stride: 3 padding: SAME", {3, 12, 13, 1}, {3, 12, 5, 5}, {3, 3, 5, 1}},
      {"3d_shallow",
       "filters: 12 kernel: [7, 1, 1] stride: [2, 1, 1] pad: [3, 0, 0]",
       {1, 16, 5, 4, 5},
       {12, 16, 7, 1, 1},
       {1, 12, 3, 4, 5}},
      // Of few channels, with strides.
      {"stem", "filters: 8 kernel: 7 stride: 2 pad: 3", {1, 3, 8, 9}, {8, 3, 7, 7}, {1, 8, 4, 5}},
      {"phases", "filters: 64 kernel: 7 stride: 2 pad: 3", {2, 3, 15, 18}, {64, 3, 7, 7}, {2, 64, 8, 9}},
      {"phases_same", "filters: 48 kernel: 7 stride: 2 padding: SAME", {1, 1, 17, 16}, {48, 1, 7, 7}, {1, 48, 9, 8}},
      {"phases_valid", "filters: 80 kernel: [7, 8] stride: 2", {1, 4, 22, 22}, {80, 4, 7, 8}, {1, 80, 8, 8}},
      {"phases_of_3_taps", "filters: 48 kernel: 5 stride: 2 pad: 2", {2, 3, 15, 18}, {48, 3, 5, 5}, {2, 48, 8, 9}},
      {"phases_in_steps_of_4",
       "filters: 64 kernel: 11 stride: 4 pad: 2",
       {1, 3, 39, 36},
       {64, 3, 11, 11},
       {1, 64, 9, 8}},
      {"stem_in_packs", "filters: 16 kernel: 3 stride: 2 padding: SAME", {2, 3, 6, 8}, {16, 3, 3, 3}, {2, 16, 3, 4}},
      {"stem_of_one_channel",
       "filters: 6 kernel: [5, 3] stride: [3, 2] pad: [2, 1]",
       {2, 1, 9, 10},
       {6, 1, 5, 3},
       {2, 6, 3, 5}},
      {"stem_by_3", "filters: 3 kernel: [4, 6] stride: 3 pad: 1", {1, 3, 11, 10}, {3, 3, 4, 6}, {1, 3, 4, 3}},
      {"patches", "filters: 5 kernel: 4 stride: 4", {2, 3, 8, 13}, {5, 3, 4, 4}, {2, 5, 2, 3}},
      {"patches_of_4_channels", "filters: 16 kernel: 2 stride: 2", {2, 4, 6, 8}, {16, 4, 2, 2}, {2, 16, 3, 4}},
      {"strided_wide",
       "filters: 3 kernel: [1, 3] stride: [2, 1] pad: [0, 1]",
       {1, 128, 2, 256},
       {3, 128, 1, 3},
       {1, 3, 1, 256}},
      {"stem_wide", "filters: 1 kernel: [2, 3] stride: 2", {1, 3, 2, 2056}, {1, 3, 2, 3}, {1, 1, 1, 1027}},
  };
  return *cases;
}

Options FusedOptions(const Options& conv, Activation activation) {
  proto::FusedConv options;
  *options.mutable_conv() = conv.Get<proto::Conv>();
  options.set_activation(ToProto(activation));
  return proto::MakeOptions(options);
}

Options GradSampleOptions(const ConvCase& conv, const Shape& result) {
  return GradOptions(ParseOptions<proto::Conv>(conv.options).Get<proto::Conv>(), result);
}

void BadSamples(SampleBuilder& s) {
  const auto bad = [&](const char* name, const char* options, const Shape& x, const char* message) {
    s.Case(name).With(ParseOptions<proto::Conv>(options)).Input(x).Input({4, 2, 3, 3}).Fails(message);
  };
  bad("bad_rank", "filters: 4 kernel: 3", {2, 3}, "expected 3 to 5 dimensions (batch first), found 2");
  bad("no_filters", "kernel: 3", {1, 2, 5, 5}, "option \"filters\": is missing");
  bad("bad_filters", "filters: 0 kernel: 3", {1, 2, 5, 5}, "option \"filters\": expected between 1 and");
  bad("no_kernel", "filters: 4", {1, 2, 5, 5}, "option \"kernel\": is missing");
  bad("kernel_count", "filters: 4 kernel: [3, 3, 3]", {1, 2, 5, 5},
      "option \"kernel\": expected 1 or 2 numbers (the input has 2 spatial dimensions), found 3");
  bad("bad_kernel", "filters: 4 kernel: 0", {1, 2, 5, 5},
      "option \"kernel\": expected between 1 and 1073741824, found 0");
  bad("bad_stride", "filters: 4 kernel: 3 stride: 0", {1, 2, 5, 5},
      "option \"stride\": expected between 1 and 1073741824, found 0");
  bad("bad_dilation", "filters: 4 kernel: 3 dilation: -1", {1, 2, 5, 5},
      "option \"dilation\": expected between 1 and 1073741824, found -1");
  bad("bad_pad", "filters: 4 kernel: 3 pad: -1", {1, 2, 5, 5},
      "option \"pad\": expected between 0 and 1073741824, found -1");
  bad("huge_pad", "filters: 4 kernel: 3 pad: 4611686018427387904", {1, 2, 5, 5},
      "option \"pad\": expected between 0 and 1073741824, found 4611686018427387904");
  bad("pad_like_kernel", "filters: 4 kernel: 3 pad: [2, 3]", {1, 2, 5, 5},
      "option \"pad\": expected less than the kernel, which spans 3 of axis 3, found 3");
  bad("pad_like_dilated_kernel", "filters: 4 kernel: 3 dilation: 2 pad: 5", {1, 2, 5, 5},
      "option \"pad\": expected less than the kernel, which spans 5 of axis 2, found 5");
  bad("pad_twice", "filters: 4 kernel: 3 pad: 1 padding: SAME", {1, 2, 5, 5},
      "option \"pad\": goes with padding: EXPLICIT only, found padding: SAME");
  bad("bad_groups", "filters: 4 kernel: 3 groups: 3", {1, 2, 5, 5},
      "option \"groups\": expected a divisor of the input's 2 channels, found 3");
  bad("bad_group_filters", "filters: 3 kernel: 3 groups: 2", {1, 2, 5, 5},
      "option \"filters\": expected a multiple of the 2 groups, found 3");
  bad("depthwise_groups", "kernel: 3 depthwise: true groups: 1", {1, 2, 5, 5},
      "option \"groups\": depthwise means one group per channel, which is 2 groups; found 1");
  bad("does_not_fit", "filters: 4 kernel: 3 dilation: 3", {1, 2, 5, 9},
      "option \"kernel\": a kernel of 3 with dilation 3 does not fit axis 2 of the input: 5 + 0 of padding");
  bad("bad_weight", "filters: 4 kernel: 3", {1, 3, 5, 5}, "input 1 \"w\" [4, 2, 3, 3]: expected shape [4, 3, 3, 3]");
  s.Case("bad_bias")
      .With(ParseOptions<proto::Conv>("filters: 4 kernel: 3"))
      .Input({1, 2, 5, 5})
      .Input({4, 2, 3, 3})
      .Input({3})
      .Fails("input 2 \"bias\" [3]: expected shape [4]");
}

void Samples(SampleBuilder& s) {
  for (const ConvCase& conv : ConvCases()) {
    s.Case(conv.name).With(ParseOptions<proto::Conv>(conv.options)).Input(conv.x).Input(conv.w).Input({conv.w[0]});
  }
  s.Case("no_bias")
      .With(ParseOptions<proto::Conv>("filters: 3 kernel: 3 bias: false"))
      .Input({1, 2, 5, 5})
      .Input({3, 2, 3, 3});
  s.Case("known")
      .With(ParseOptions<proto::Conv>("filters: 1 kernel: 2 pad: 1"))
      .Input({1, 1, 2, 2})
      .Values({1, 2, 3, 4})
      .Input({1, 1, 2, 2})
      .Values({1, 10, 100, 1000})
      .Input({1})
      .Values({0.5})
      .Expect(0, {1000.5, 2100.5, 200.5, 3010.5, 4321.5, 402.5, 30.5, 43.5, 4.5});
  BadSamples(s);
}

void FusedSamples(SampleBuilder& s) {
  for (const char* activation : {"IDENTITY", "RELU", "RELU6", "SIGMOID", "TANH"}) {
    s.Case(activation)
        .With(ParseOptions<proto::FusedConv>(
            absl::StrCat("conv { filters: 20 kernel: 3 pad: 1 } activation: ", activation).c_str()))
        .Input({2, 5, 6, 7})
        .Range(-3, 3)
        .Input({20, 5, 3, 3})
        .Input({20});
  }
  const auto fast = [&s](const char* name, const char* options, const Shape& x, const Shape& w) {
    s.Case(name).With(ParseOptions<proto::FusedConv>(options)).Input(x).Range(-3, 3).Input(w).Input({w[0]});
  };
  fast("winograd", "conv { filters: 64 kernel: 3 pad: 1 } activation: RELU6", {1, 64, 6, 7}, {64, 64, 3, 3});
  fast("phases", "conv { filters: 48 kernel: 7 stride: 2 pad: 3 } activation: RELU", {1, 3, 16, 17}, {48, 3, 7, 7});
  // One image at a time on one thread; on two, two and one.
  fast("phases_by_images", "conv { filters: 48 kernel: 7 stride: 2 pad: 3 } activation: RELU", {3, 1, 140, 139},
       {48, 1, 7, 7});
  fast("product", "conv { filters: 20 kernel: 1 } activation: TANH", {1, 64, 6, 7}, {20, 64, 1, 1});
  fast("depthwise", "conv { kernel: 3 depthwise: true pad: 1 } activation: RELU6", {1, 64, 6, 7}, {64, 1, 3, 3});
  for (const char* activation : {"RELU", "RELU6"}) {
    s.Case(absl::StrCat("stem_", activation))
        .With(ParseOptions<proto::FusedConv>(
            absl::StrCat("conv { filters: 9 kernel: 3 stride: 2 pad: 1 } activation: ", activation).c_str()))
        .Input({2, 3, 6, 7})
        .Range(-3, 3)
        .Input({9, 3, 3, 3})
        .Input({9});
  }
  s.Case("known")
      .With(ParseOptions<proto::FusedConv>("conv { filters: 1 kernel: 2 } activation: RELU"))
      .Input({1, 1, 2, 3})
      .Values({1, 2, -3, 3, 4, -1})
      .Input({1, 1, 2, 2})
      .Values({1, 10, 100, 1000})
      .Input({1})
      .Values({0.5})
      .Expect(0, {4321.5, 0});
  s.Case("bad_kernel")
      .With(ParseOptions<proto::FusedConv>("conv { filters: 4 }"))
      .Input({1, 2, 5, 5})
      .Input({4, 2, 3, 3})
      .Fails("option \"kernel\": is missing");
}

void GradInputSamples(SampleBuilder& s) {
  for (const ConvCase& conv : ConvCases()) {
    s.Case(conv.name).With(GradSampleOptions(conv, conv.x)).Input(conv.y).Input(conv.w);
  }
  s.Case("known")
      .With(GradSampleOptions({.options = "filters: 1 kernel: 2 stride: 2"}, {1, 1, 2, 5}))
      .Input({1, 1, 1, 2})
      .Values({1, 2})
      .Input({1, 1, 2, 2})
      .Values({1, 10, 100, 1000})
      .Expect(0, {1, 10, 2, 20, 0, 100, 1000, 200, 2000, 0});
  const ConvCase& conv = ConvCases()[2];
  s.Case("bad_rank").With(GradSampleOptions(conv, conv.x)).Input({2, 5, 6}).Input(conv.w).Fails("expected the rank of");
  s.Case("bad_gradient")
      .With(GradSampleOptions(conv, conv.x))
      .Input({2, 5, 6, 6})
      .Input(conv.w)
      .Fails("input 0 \"dy\" [2, 5, 6, 6]: expected shape [2, 5, 6, 7]");
}

void GradWeightSamples(SampleBuilder& s) {
  for (const ConvCase& conv : ConvCases()) {
    s.Case(conv.name).With(GradSampleOptions(conv, conv.w)).Input(conv.x).Input(conv.y);
  }
  const ConvCase& conv = ConvCases()[2];
  s.Case("bad_gradient")
      .With(GradSampleOptions(conv, conv.w))
      .Input(conv.x)
      .Input({2, 5, 6, 6})
      .Fails("input 1 \"dy\" [2, 5, 6, 6]: expected shape [2, 5, 6, 7]");
}

constexpr Traits kTraits = {.layout = LayoutRule::kPrefers};

}  // namespace

SNUG_OPS(conv) {
  return {{.name = "conv",
           .doc = "y = conv(x, w) + bias over 1 to 3 spatial dimensions",
           .inputs = {{"x"}, {.name = "w", .plain_layout = true}, {.name = "bias", .optional = true}},
           .outputs = {{"y"}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .traits = kTraits,
           .cost = ConvCost,
           .with_activation = {"conv_fused", FusedOptions},
           .kernels = Kernels(ConvCpu, ConvPart::kForward, ForwardNode),
           .samples = Samples},
          {.name = "conv_fused",
           .doc = "y = activation(conv(x, w) + bias)",
           .inputs = {{"x"}, {.name = "w", .plain_layout = true}, {.name = "bias", .optional = true}},
           .outputs = {{"y"}},
           .infer = InferFused,
           .traits = kTraits,
           .cost = ConvCost,
           .kernels = Kernels(FusedCpu, ConvPart::kForward, FusedNode),
           .samples = FusedSamples},
          {.name = "conv_grad_input",
           .doc = "the gradient of a convolution's data",
           .inputs = {{"dy"}, {.name = "w", .plain_layout = true}},
           .outputs = {{"dx"}},
           .infer = InferGradInput,
           .gradient = GradInputGradient,
           .traits = kTraits,
           .cost = GradInputCost,
           .kernels = Kernels(GradInputCpu, ConvPart::kGradInput, GradInputNode),
           .samples = GradInputSamples},
          {.name = "conv_grad_weight",
           .doc = "the gradient of a convolution's weights",
           .inputs = {{"x"}, {"dy"}},
           .outputs = {{.name = "dw", .plain_layout = true}},
           .infer = InferGradWeight,
           .traits = kTraits,
           .cost = GradWeightCost,
           .kernels = Kernels(GradWeightCpu, ConvPart::kGradWeight, GradWeightNode),
           .samples = GradWeightSamples}};
}

}  // namespace snug::core::ops::conv
