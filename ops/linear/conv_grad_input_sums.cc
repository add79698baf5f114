// conv_grad_input_sums: the gradient of a convolution's data where that came from a batch norm: what the activation
// behind the norm lets through of it, and the gradients of the norm's weight and bias, which are sums over it. They are
// taken while caches have what was computed, and save a sweep over it; batch_norm_grad_input makes the norm's dx of
// them. Only the pass sum_in_convolution makes these nodes.
#include <absl/strings/str_cat.h>

#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/activation.h"
#include "ops/conv_fusions.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/plain.h"
#include "ops/kernels/conv/product_choice.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace ops::conv_grad_input_sums {
namespace {

using OpOptions = proto::ConvGradSums;

absl::Status Infer(InferContext& c) {
  const auto& options = c.options<OpOptions>();
  SNUG_RETURN_IF_ERROR(c.CheckRank(kSumsDy, 3, 2 + kMaxSpatial));
  const Shape x(options.conv_grad().dim());
  if (x.rank() != c.shape(kSumsDy).rank()) {
    return c.InputError(kSumsDy, absl::StrCat("expected the rank of ", x.ToString()));
  }
  SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(options.conv_grad().conv(), x));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kSumsDy, g.output_shape()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kSumsW, g.weight_shape()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kSumsX, x));
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, kSumsX, kSumsMean, kSumsBias + 1));
  for (const int i : {kSumsY, kSumsDy2}) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, x));
  }
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, options.norm().batch_norm().epsilon()));
  const ValueType& dy = c.input(kSumsDy);
  c.SetOutput(0, dy.dtype, x, dy.layout);
  for (const int sum : {1, 2}) c.SetOutput(sum, Float32PortType(dy.dtype), {g.in_channels});
  return absl::OkStatus();
}

ConvNode NodeOf(const NodeTypes& types) {  // whose options inference has checked
  const auto& options = types.options.Get<OpOptions>();
  absl::StatusOr<ConvGeometry> g = MakeConvGeometry(options.conv_grad().conv(), types.output(0).shape);
  SNUG_CHECK_OK(g.status());
  return {.geometry = *g,
          .activation = FromProto(options.norm().activation()),
          .sums = true,
          .epsilon = options.norm().batch_norm().epsilon()};
}

Cost CostOfBoth(const NodeTypes& types) {
  constexpr double kOfSums = 6;  // for each element
  const double multiply_adds = NodeOf(types).geometry.multiply_adds();
  return {.flops = 2 * multiply_adds + kOfSums * static_cast<double>(types.output(0).num_elements()),
          .multiply_adds = multiply_adds};
}

// Does a channel, of which `gradient` has what the convolution gives. dz may lie on dy2.
template <class T>
void SumChannel(const KernelContext& k, const ChannelView& view, int64_t channel, const T* gradient) {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  const ConvNode node = NodeOf(k.types());
  const T *const x = k.input<T>(kSumsX), *const y = InputOrNull<T>(k, kSumsY), *const dy2 = InputOrNull<T>(k, kSumsDy2);
  const S *const weight = InputOrNull<S>(k, kSumsWeight), *const bias = InputOrNull<S>(k, kSumsBias);
  T* const dz = k.output<T>(0);
  const double inv_std = 1 / std::sqrt(static_cast<double>(k.input<S>(kSumsVar)[channel]) + node.epsilon);
  const A scale = static_cast<A>((weight != nullptr ? static_cast<double>(weight[channel]) : 1) * inv_std);
  const A moved = bias != nullptr ? static_cast<A>(bias[channel]) : A(0);
  double sum = 0, product = 0;
  for (int64_t n = 0; n < view.outer; ++n) {
    const int64_t first = (n * view.channels + channel) * view.inner;
    for (int64_t i = first; i < first + view.inner; ++i) {
      const A centred = static_cast<A>(x[i]) - static_cast<A>(k.input<S>(kSumsMean)[channel]);
      A g = static_cast<A>(gradient[i]);
      if (dy2 != nullptr) g += static_cast<A>(dy2[i]);
      const A tells = y != nullptr ? static_cast<A>(y[i]) : centred * scale + moved;
      dz[i] = LetsThrough(node.activation, tells) ? static_cast<T>(g) : T(0);
      sum += static_cast<double>(dz[i]);
      product += static_cast<double>(dz[i]) * static_cast<double>(centred);
    }
  }
  k.output<S>(1)[channel] = static_cast<S>(product * inv_std);
  k.output<S>(2)[channel] = static_cast<S>(sum);
}

absl::Status RunPlain(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const gradient = k.workspace<T>();  // a place of its own, so dz may lie on dy2
    PlainConvGradInput(k.threads(), NodeOf(k.types()).geometry, k.output_type(0), k.input_type(kSumsDy),
                       k.input<T>(kSumsDy), k.input<T>(kSumsW), gradient);
    const ChannelView view(k.output_type(0));
    ParallelFor(k.threads(), view.channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) SumChannel(k, view, c, gradient);
    });
    return absl::OkStatus();
  });
}

absl::Status PreparePlain(PrepareContext& c) {
  c.SetWorkspaceBytes(c.types().output(0).size_bytes());
  return absl::OkStatus();
}

// ---- samples ----

// What a case has of the inputs that may be absent.
struct Has {
  bool y = true, dy2 = true, affine = true;
};

Options OptionsOf(const char* conv, const Shape& x, const char* activation) {
  std::string text = absl::StrCat("conv_grad { conv { ", conv, " }");
  for (int i = 0; i < x.rank(); ++i) absl::StrAppend(&text, " dim: ", x[i]);
  absl::StrAppend(&text, " } norm { activation: ", activation, " }");
  return proto::ParseOptions<OpOptions>(text.c_str());
}

void Samples(SampleBuilder& s) {
  const auto sample = [&s](const char* name, const char* conv, const Shape& x, const Shape& w, const Shape& dy,
                           const char* activation = "RELU", const Has& has = {}) {
    const Shape channels = {x[1]};
    Sample& c = s.Case(name).With(OptionsOf(conv, x, activation)).Input(dy).Input(w).Input(x);
    c.Input(channels).Range(-0.1, 0.1).Input(channels).Range(0.3, 2);
    has.affine ? c.Input(channels).Range(0.5, 4).Input(channels).Range(-1, 4) : c.Absent().Absent();
    has.y ? c.Input(x).Range(-5, 10).AwayFrom({0, 6}) : c.Absent();
    has.dy2 ? c.Input(x) : c.Absent();
  };
  const Shape x = {2, 17, 4, 5}, w = {20, 17, 1, 1}, dy = {2, 20, 4, 5};
  for (const char* activation : {"IDENTITY", "RELU", "RELU6"}) {
    const auto name = [&](const char* what) { return absl::StrCat(activation, what); };
    sample(name("").c_str(), "filters: 20 kernel: 1", x, w, dy, activation, {.affine = false});
    sample(name("_one").c_str(), "filters: 20 kernel: 1", x, w, dy, activation, {.dy2 = false, .affine = false});
    sample(name("_from_x").c_str(), "filters: 20 kernel: 1", x, w, dy, activation, {.y = false, .dy2 = false});
  }
  sample("many_pixels", "filters: 9 kernel: 1", {3, 75, 8, 11}, {9, 75, 1, 1}, {3, 9, 8, 11});
  sample("many_pixels_from_x", "filters: 9 kernel: 1", {3, 75, 8, 11}, {9, 75, 1, 1}, {3, 9, 8, 11}, "RELU6",
         {.y = false, .dy2 = false});
  sample("long_sums", "filters: 300 kernel: 1", {1, 33, 7, 9}, {300, 33, 1, 1}, {1, 300, 7, 9});
  sample("many_channels", "filters: 16 kernel: 1", {1, 600, 3, 9}, {16, 600, 1, 1}, {1, 16, 3, 9});
  sample("taps", "filters: 3 kernel: 3 stride: 2 pad: 1", {2, 5, 6, 7}, {3, 5, 3, 3}, {2, 3, 3, 4});
  sample("strided", "filters: 18 kernel: 1 stride: 2", {1, 16, 5, 6}, {18, 16, 1, 1}, {1, 18, 3, 3});
  const Shape image = {2, 37, 9, 11}, image_dy = {2, 37, 5, 6}, taps = {37, 1, 3, 3};
  for (const char* activation : {"IDENTITY", "RELU", "RELU6"}) {
    const auto name = [&](const char* what) { return absl::StrCat("depthwise_", activation, what); };
    const char* options = "filters: 37 kernel: 3 groups: 37 pad: 1";
    const char* in_steps = "filters: 37 kernel: 3 groups: 37 pad: 1 stride: 2";
    sample(name("").c_str(), options, image, taps, image, activation, {.dy2 = false});
    sample(name("_from_x").c_str(), options, image, taps, image, activation, {.y = false, .dy2 = false});
    sample(name("_in_steps").c_str(), in_steps, image, taps, image_dy, activation, {.dy2 = false});
    sample(name("_in_steps_from_x").c_str(), in_steps, image, taps, image_dy, activation, {.y = false, .dy2 = false});
  }
  sample("depthwise_and_more", "filters: 37 kernel: 3 groups: 37 pad: 1", image, taps, image);
  sample("depthwise_5x5", "filters: 16 kernel: 5 groups: 16 pad: 2", {3, 16, 21, 30}, {16, 1, 5, 5}, {3, 16, 21, 30},
         "RELU", {.dy2 = false, .affine = false});
  sample("signal", "filters: 6 kernel: 1", {2, 4, 9}, {6, 4, 1}, {2, 6, 9});
  s.Case("known")
      .With(proto::ParseOptions<OpOptions>(
          "conv_grad { conv { filters: 1 kernel: 1 } dim: [1, 1, 1, 3] } norm { batch_norm { epsilon: 0 } "
          "activation: RELU }"))
      .Input({1, 1, 1, 3})
      .Values({1, 2, 3})
      .Input({1, 1, 1, 1})
      .Values({10})
      .Input({1, 1, 1, 3})
      .Values({5, 6, 9})
      .Input({1})
      .Values({4})
      .Input({1})
      .Values({4})
      .Absent()
      .Absent()
      .Input({1, 1, 1, 3})
      .Values({1, 0, 2})
      .Input({1, 1, 1, 3})
      .Values({0.5, 100, 200})
      .Expect(0, {10.5, 0, 230})
      .Expect(1, {580.25})
      .Expect(2, {240.5});
  s.Case("bad_dy2")
      .With(OptionsOf("filters: 20 kernel: 1", x, "RELU"))
      .Input(dy)
      .Input(w)
      .Input(x)
      .Input({17})
      .Input({17})
      .Absent()
      .Absent()
      .Input(x)
      .Input({2, 17, 4, 4})
      .Fails("expected shape [2, 17, 4, 5]");
}

}  // namespace
}  // namespace ops::conv_grad_input_sums

// In bfloat16 another kernel may be faster by more than a sweep takes, unless each channel is alone.
bool SumsAsItConvolvesBack(const proto::ConvGrad& options, const ValueType& dy, bool adds) {
  if (!dy.layout.channels_last() || (dy.dtype != DType::kFloat32 && dy.dtype != DType::kBFloat16)) return false;
  const absl::StatusOr<ops::ConvGeometry> g = ops::MakeConvGeometry(options.conv(), Shape(options.dim()));
  if (!g.ok()) return false;
  if (!ops::WhyNotDepthwiseSizes(*g).has_value()) return !adds;
  return dy.dtype == DType::kFloat32 && ops::SummingProductPays(*g);
}

namespace ops::conv_grad_input_sums {

SNUG_OPS(conv_grad_input_sums) {
  return {{.name = "conv_grad_input_sums",
           .doc = "dz = the gradient of a convolution's data + dy2, where the activation of the batch norm before it, "
                  "of x, lets it through; and that norm's dweight and dbias",
           .inputs = {{"dy"},
                      {.name = "w", .plain_layout = true},
                      {"x"},
                      {"mean", PortType::kFloat32},
                      {"var", PortType::kFloat32},
                      {"weight", PortType::kFloat32, true},
                      {"bias", PortType::kFloat32, true},
                      {.name = "y", .optional = true},
                      {.name = "dy2", .optional = true}},
           .outputs = {{"dz"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, /*output=*/0, /*input=*/kSumsDy2}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = CostOfBoth,
           .kernels = {DepthwiseConvRow(ConvPart::kGradInput, NodeOf),
                       ProductConvRow(ConvPart::kGradInput, NodeOf),
                       {.name = "plain", .prepare = PreparePlain, .run = RunPlain}},
           .samples = Samples}};
}

}  // namespace ops::conv_grad_input_sums
}  // namespace snug::core
