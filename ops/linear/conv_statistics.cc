// conv_statistics: a convolution, and the mean and variance of each channel of its result, which a batch norm behind it
// needs: they are taken while caches have what was computed, and save a sweep over it. Only the pass
// measure_in_convolution makes it.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/conv_fusions.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/phases.h"
#include "ops/kernels/conv/plain.h"
#include "ops/kernels/conv/product_choice.h"
#include "ops/kernels/conv/winograd_sizes.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace ops::conv_statistics {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 2 + kMaxSpatial));
  SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(c.options<proto::Conv>(), c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, g.weight_shape()));
  if (c.has_input(2)) SNUG_RETURN_IF_ERROR(c.CheckShape(2, Shape({g.out_channels})));
  const ValueType& x = c.input(0);
  c.SetOutput(0, x.dtype, g.output_shape(), x.layout);
  for (const int statistic : {1, 2}) c.SetOutput(statistic, Float32PortType(x.dtype), {g.out_channels});
  return absl::OkStatus();
}

ConvGeometry GeometryOf(const NodeTypes& types) {  // of a node whose options inference has checked
  absl::StatusOr<ConvGeometry> g = MakeConvGeometry(types.options.Get<proto::Conv>(), types.input(0).shape);
  SNUG_CHECK_OK(g.status());
  return *g;
}

ConvNode NodeOf(const NodeTypes& types) { return {.geometry = GeometryOf(types), .measures = true}; }

Cost CostOfBoth(const NodeTypes& types) {
  constexpr double kOfStatistics = 4;  // for each element
  const double multiply_adds = GeometryOf(types).multiply_adds();
  return {.flops = 2 * multiply_adds + kOfStatistics * static_cast<double>(types.output(0).num_elements()),
          .multiply_adds = multiply_adds};
}

template <class T, class Statistic>
void Measure(const ChannelView& view, const T* y, int64_t channel, Statistic* mean, Statistic* var) {
  const auto sum_of = [&](auto f) {
    double sum = 0;
    for (int64_t n = 0; n < view.outer; ++n) {
      const T* const plane = y + (n * view.channels + channel) * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) sum += f(static_cast<double>(plane[i]));
    }
    return sum;
  };
  const auto count = static_cast<double>(view.count());
  const double centre = sum_of([](double v) { return v; }) / count;
  *mean = static_cast<Statistic>(centre);
  *var = static_cast<Statistic>(sum_of([=](double v) { return (v - centre) * (v - centre); }) / count);
}

absl::Status RunPlain(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using Statistic = Float32Port<T>;
    T* const y = k.output<T>(0);
    PlainConv(k.threads(), GeometryOf(k.types()), k.input_type(0), k.output_type(0), k.input<T>(0), k.input<T>(1),
              k.has_input(2) ? k.input<T>(2) : nullptr, y);
    const ChannelView view(k.output_type(0));
    Statistic *const mean = k.output<Statistic>(1), *const var = k.output<Statistic>(2);
    ParallelFor(k.threads(), view.channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) Measure(view, y, c, mean + c, var + c);
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto sample = [&s](const char* name, const char* options, const Shape& x, const Shape& w) {
    s.Case(name).With(proto::ParseOptions<proto::Conv>(options)).Input(x).Input(w).Input({w[0]});
  };
  sample("1x1", "filters: 20 kernel: 1", {2, 17, 4, 5}, {20, 17, 1, 1});
  sample("1x1_many_pixels", "filters: 75 kernel: 1", {3, 9, 8, 11}, {75, 9, 1, 1});
  sample("1x1_strided", "filters: 18 kernel: 1 stride: 2", {1, 16, 5, 6}, {18, 16, 1, 1});
  sample("1x1_long_sums", "filters: 33 kernel: 1", {1, 300, 7, 9}, {33, 300, 1, 1});
  sample("winograd", "filters: 80 kernel: 3 pad: 1", {3, 64, 13, 10}, {80, 64, 3, 3});
  sample("winograd_of_5_taps", "filters: 64 kernel: 5 pad: 2", {2, 64, 7, 6}, {64, 64, 5, 5});
  sample("winograd_in_steps", "filters: 80 kernel: 3 stride: 2 pad: 1", {3, 64, 15, 10}, {80, 64, 3, 3});
  sample("winograd_valid", "filters: 64 kernel: 3", {1, 64, 6, 7}, {64, 64, 3, 3});
  sample("phases", "filters: 48 kernel: 7 stride: 2 pad: 3", {2, 3, 21, 18}, {48, 3, 7, 7});
  sample("depthwise", "kernel: 3 depthwise: true pad: 1", {2, 40, 9, 11}, {40, 1, 3, 3});
  sample("depthwise_in_strips", "kernel: 3 depthwise: true pad: 1", {2, 150, 21, 19}, {150, 1, 3, 3});
  sample("depthwise_5x5_strided", "kernel: 5 stride: 2 depthwise: true pad: 2", {1, 17, 8, 11}, {17, 1, 5, 5});
  sample("taps", "filters: 3 kernel: 3 stride: 2 pad: 1", {2, 5, 6, 7}, {3, 5, 3, 3});
  sample("signal", "filters: 6 kernel: 3", {2, 4, 9}, {6, 4, 3});
  s.Case("far_from_zero")
      .With(proto::ParseOptions<proto::Conv>("filters: 16 kernel: 1"))
      .Input({2, 16, 9, 9})
      .Range(5, 6)
      .Input({16, 16, 1, 1})
      .Absent()
      .Tolerance(2e-5, 5e-2);
  s.Case("known")
      .With(proto::ParseOptions<proto::Conv>("filters: 1 kernel: 1"))
      .Input({1, 2, 1, 2})
      .Values({1, 2, 3, 4})
      .Input({1, 2, 1, 1})
      .Values({1, 10})
      .Input({1})
      .Values({0.5})
      .Expect(0, {31.5, 42.5})
      .Expect(1, {37})
      .Expect(2, {30.25});
  s.Case("bad_weight")
      .With(proto::ParseOptions<proto::Conv>("filters: 4 kernel: 3"))
      .Input({1, 3, 5, 5})
      .Input({4, 2, 3, 3})
      .Fails("expected shape [4, 3, 3, 3]");
}

}  // namespace
}  // namespace ops::conv_statistics

// In bfloat16 another kernel may be faster by more than a sweep takes, unless each channel is alone.
bool MeasuresAsItConvolves(const proto::Conv& options, const ValueType& x) {
  if (!x.layout.channels_last() || (x.dtype != DType::kFloat32 && x.dtype != DType::kBFloat16)) return false;
  const absl::StatusOr<ops::ConvGeometry> g = ops::MakeConvGeometry(options, x.shape);
  if (!g.ok()) return false;
  if (!ops::WhyNotDepthwiseSizes(*g).has_value()) return true;
  if (g->groups != 1 || x.dtype != DType::kFloat32) return false;
  return !ops::WhyNotWinogradSizes(*g).has_value() || !ops::WhyNotPhasesSizes(*g).has_value() ||
         ops::MeasuringProductPays(*g);
}

namespace ops::conv_statistics {

SNUG_OPS(conv_statistics) {
  return {
      {.name = "conv_statistics",
       .doc = "y = conv(x, w) + bias, and the mean and variance of each channel of y",
       .inputs = {{"x"}, {.name = "w", .plain_layout = true}, {.name = "bias", .optional = true}},
       .outputs = {{"y"}, {.name = "mean", .type = PortType::kFloat32}, {.name = "var", .type = PortType::kFloat32}},
       .infer = Infer,
       .traits = {.layout = LayoutRule::kPrefers},
       .cost = CostOfBoth,
       .kernels = {WinogradConvRow(ConvPart::kForward, NodeOf), DepthwiseConvRow(ConvPart::kForward, NodeOf),
                   PhasesConvRow(ConvPart::kForward, NodeOf), ProductConvRow(ConvPart::kForward, NodeOf),
                   Plain(RunPlain)},
       .samples = Samples}};
}

}  // namespace ops::conv_statistics
}  // namespace snug::core
