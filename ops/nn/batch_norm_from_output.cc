// Batch norm whose gradient reads what it gave, y, in place of what it was given: the op stays as it is, and two others
// follow it. A weight that is too small beside its bias for that (invertible.h) is an error of the forward pass, so
// that it comes before any update of the step. Only the pass gradients_from_outputs makes these.
//
// batch_norm_from_output_grad is batch norm's gradient with y for x: y is a value whose mean is the bias and whose
// deviation is |weight|. With these as statistics the gradient finds sign(weight) x', in which dx is even and dweight
// odd: dx is right if the weight it is told keeps weight inv_std as it was, and dweight is given that sign. The numbers
// come from batch_norm_output_scales, which makes the check. The updates' gate reads them, which puts it before them.
//
// The digits that y lacks leave what it has beside the bias a small mean. In dweight = sum(dy x') that meets what all
// dy have in common, which may be a thousand times what they differ by (behind a mean over the image, say), and which
// x' with a mean of 0 would take no notice of. So this rest of the mean is measured, and taken off as well.
#include <algorithm>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernel_row.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/nn/invertible.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::batch_norm_from_output {
namespace {

using proto::ParseOptions;

absl::Status InferScales(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 3, 0, 3));
  SNUG_RETURN_IF_ERROR(CheckDigits(c, 3));
  for (const int output : {0, 1, 2}) c.SetOutput(output, c.input(0));
  return absl::OkStatus();
}

absl::Status PrepareScales(PrepareContext& c) {  // makes room for a sum of each channel
  c.SetWorkspaceBytes(ChannelView(c.types().input(3)).channels * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

// Sets the sums of y - bias of each channel, each of which is added up in a sequence that its shape alone tells.
template <class S>
void SumDifferences(int threads, const ChannelView& view, const S* y, const S* bias, double* sums) {
  constexpr int64_t kGroup = 16;  // channels, which fill a cache line where they lie side by side
  constexpr int64_t kLanes = 8;   // sums side by side in one plane
  const auto centre = [=](int64_t c) { return bias != nullptr ? bias[c] : S(0); };
  ParallelFor(threads, view.channels, kGroup, [=](int64_t begin, int64_t end) {
    std::fill(sums + begin, sums + end, 0.0);
    for (int64_t n = 0; n < view.outer; ++n) {
      if (view.inner == 1) {
        const S* const row = y + n * view.channels;
        for (int64_t c = begin; c < end; ++c) sums[c] += static_cast<double>(row[c] - centre(c));
        continue;
      }
      for (int64_t c = begin; c < end; ++c) {
        const S* const plane = y + (n * view.channels + c) * view.inner;
        double lanes[kLanes] = {};
        int64_t i = 0;
        for (; i + kLanes <= view.inner; i += kLanes) {
          for (int64_t j = 0; j < kLanes; ++j) lanes[j] += static_cast<double>(plane[i + j] - centre(c));
        }
        for (; i < view.inner; ++i) lanes[0] += static_cast<double>(plane[i] - centre(c));
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
  S* mean_rest = k.output<S>(2);
  const ChannelView view(k.input_type(3));
  const double epsilon = k.options<proto::BatchNorm>().epsilon();
  SNUG_RETURN_IF_ERROR(CheckInvertible(weight, bias, view.channels));
  auto* const sums = k.workspace<double>();
  SumDifferences(k.threads(), view, k.input<S>(3), bias, sums);
  for (int64_t i = 0; i < view.channels; ++i) {
    const auto w = static_cast<double>(weight[i]);
    scale[i] = static_cast<S>(w * std::fabs(w) / std::sqrt(static_cast<double>(var[i]) + epsilon));
    variance[i] = static_cast<S>(w * w);
    mean_rest[i] = static_cast<S>(sums[i] / static_cast<double>(view.count()));
  }
  return absl::OkStatus();
}

absl::Status InferFromOutput(InferContext& c) {
  SNUG_RETURN_IF_ERROR(InferBatchNormGrad(c));
  SNUG_RETURN_IF_ERROR(CheckDigits(c, 0));
  return c.CheckShape(5, {c.shape(0)[1]});
}

struct FromOutput {
  template <class T>
  static BatchNormBackward<T> Make(const KernelContext& k) {
    BatchNormBackward<T> call = BatchNormGradCall<T>(k, /*epsilon=*/0, /*training=*/true);
    call.mean_rest = k.input<Float32Port<T>>(5);
    return call;
  }
};

template <class S>
void GiveSigns(const S* scale, int64_t channels, S* dweight) {
  for (int64_t c = 0; c < channels; ++c) {
    if (scale[c] < 0) dweight[c] = -dweight[c];
  }
}

template <auto run>
absl::Status RunFromOutput(const KernelContext& k) {
  SNUG_RETURN_IF_ERROR(run(k));
  const int64_t channels = k.input_type(1).num_elements();
  if (k.input_type(1).dtype == DType::kFloat64) {
    GiveSigns(k.input<double>(1), channels, k.output<double>(1));
  } else {
    GiveSigns(k.input<float>(1), channels, k.output<float>(1));
  }
  return absl::OkStatus();
}

absl::Status ScalesKernel(const KernelContext& k) {
  return k.input_type(0).dtype == DType::kFloat64 ? RunScales<double>(k) : RunScales<float>(k);
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
      .Expect(2, {3, -1.5});
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

void FromOutputSamples(SampleBuilder& s) {
  const auto add = [&s](const char* name, const Shape& y) {
    const Shape channels = {y[1]};
    s.Case(name)
        .Only({DType::kFloat32, DType::kFloat64})
        .Input(y)
        .Input(channels)
        .Range(-2, 2)
        .Input(channels)
        .Input(channels)
        .Range(0.3, 2)
        .Input(y)
        .Input(channels)
        .Range(-0.01, 0.01);
  };
  add("image", {3, 5, 4, 3});
  add("vector", {7, 19});
  add("rows", {17, 48, 3, 3});
  add("planes", {3, 2, 70, 67});
  // Of both channels x' is -0.5, 0.5 and 3, and that of the second one has the other sign.
  s.Case("known")
      .Only({DType::kFloat32, DType::kFloat64})
      .Input({3, 2})
      .Values({1, 1, 3, 3, 8, 8})
      .Input({2})
      .Values({4, -4})
      .Input({2})
      .Values({1, 1})
      .Input({2})
      .Values({4, 4})
      .Input({3, 2})
      .Values({1, 1, 2, 2, 3, 3})
      .Input({2})
      .Values({1, 1})
      .Expect(0, {7.0 / 6, -7.0 / 6, -19.0 / 6, 19.0 / 6, -17, 17})
      .Expect(1, {9.5, -9.5})
      .Expect(2, {6, 6});
  s.Case("rest")
      .Input({3, 5})
      .Input({5})
      .Input({5})
      .Input({5})
      .Input({3, 5})
      .Input({4})
      .Only({DType::kFloat32, DType::kFloat64})
      .Fails("input 5 \"mean_rest\" [4]: expected shape [5]");
}

}  // namespace

SNUG_OPS(batch_norm_from_output) {
  return {{.name = "batch_norm_output_scales",
           .doc = "what batch_norm_from_output_grad reads: scale = weight |weight| / sqrt(var + epsilon), variance = "
                  "weight^2; mean_rest = mean(y - bias)",
           .inputs =
               {{"weight", PortType::kFloat32}, {"bias", PortType::kFloat32, true}, {"var", PortType::kFloat32}, {"y"}},
           .outputs = {{.name = "scale", .type = PortType::kFloat32, .no_gradient = true},
                       {.name = "variance", .type = PortType::kFloat32, .no_gradient = true},
                       {.name = "mean_rest", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = InferScales,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = FlopsPerElement<2, 3>,
           .kernels = {{.name = "plain", .prepare = PrepareScales, .run = ScalesKernel}},
           .samples = ScalesSamples},
          {.name = "batch_norm_from_output_grad",
           .doc = "dx, dweight, dbias of batch_norm from y, which has the mean bias + mean_rest",
           .inputs = {{"y"},
                      {"scale", PortType::kFloat32},
                      {"bias", PortType::kFloat32},
                      {"variance", PortType::kFloat32},
                      {"dy"},
                      {"mean_rest", PortType::kFloat32}},
           .outputs = BatchNormGradOutputs(),
           .infer = InferFromOutput,
           .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<9>,
           .kernels = {{.name = "own",
                        .serves = NotInDouble,
                        .prepare = PrepareBatchNorm,
                        .run = RunFromOutput<BatchNormCpuFast<FromOutput>>},
                       Plain(RunFromOutput<BatchNormCpu<FromOutput>>)},
           .samples = FromOutputSamples}};
}

}  // namespace snug::core::ops::batch_norm_from_output
