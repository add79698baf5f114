// Batch normalisation with an addition and an activation in the same sweep, forward, backward and for inference. Only
// the fusion pass makes these nodes, after the backward graph is there: they have no gradients of their own. The
// backward pass reads from y what the activation let through.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/lib/batch_norm.h"
#include "ops/lib/float32_port.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::ops {
namespace {

using Fused = proto::FusedBatchNorm;
using proto::ParseOptions;

// Ports of the backward ops.
enum GradInput { kY, kX, kWeight, kMean, kVar, kDy, kDy2 };

absl::Status CheckOptions(const InferContext& c) {
  const auto& options = c.options<Fused>();
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, options.batch_norm().epsilon()));
  switch (options.activation()) {
    case proto::IDENTITY:
    case proto::RELU:
    case proto::RELU6:
      return absl::OkStatus();
    default:
      return c.OptionError("activation", absl::StrCat("expected IDENTITY, RELU or RELU6, found ",
                                                      proto::Activation_Name(options.activation())));
  }
}

NormActivation ActivationOf(const KernelContext& k) {
  switch (k.options<Fused>().activation()) {
    case proto::RELU:
      return NormActivation::kRelu;
    case proto::RELU6:
      return NormActivation::kRelu6;
    default:
      return NormActivation::kIdentity;
  }
}

absl::Status InferTraining(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 0, 1, 3));
  if (c.has_input(3)) SNUG_RETURN_IF_ERROR(c.CheckShape(3, c.shape(0)));
  SNUG_RETURN_IF_ERROR(CheckOptions(c));
  SNUG_RETURN_IF_ERROR(CheckChannelCount(c, 0));
  const ValueType& x = c.input(0);
  c.SetOutput(0, x);
  for (const int statistic : {1, 2}) c.SetOutput(statistic, Float32PortType(x.dtype), {x.shape[1]});
  return absl::OkStatus();
}

absl::Status InferInference(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, 0, 1, 5));
  if (c.has_input(5)) SNUG_RETURN_IF_ERROR(c.CheckShape(5, c.shape(0)));
  SNUG_RETURN_IF_ERROR(CheckOptions(c));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, kX, kWeight, kVar + 1));
  SNUG_RETURN_IF_ERROR(CheckOptions(c));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kY, c.shape(kX)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kDy, c.shape(kX)));
  const ValueType& x = c.input(kX);
  c.SetOutput(0, x);
  for (const int gradient : {1, 2}) c.SetOutput(gradient, Float32PortType(x.dtype), {x.shape[1]});
  return absl::OkStatus();
}

absl::Status InferAddGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(InferGrad(c));
  if (c.has_input(kDy2)) SNUG_RETURN_IF_ERROR(c.CheckShape(kDy2, c.shape(kX)));
  c.SetOutput(3, c.input(kX));
  return absl::OkStatus();
}

absl::Status Prepare(PrepareContext& c) {
  c.SetWorkspaceBytes(BatchNormWorkspace(ChannelView(c.types().input(0))));
  return absl::OkStatus();
}

template <int kFlops>
Cost CostOfNode(const NodeTypes& types) {
  return {.flops = kFlops * static_cast<double>(types.input(0).num_elements())};
}

template <class T>
BatchNormForward<T> TrainingCall(const KernelContext& k) {
  using S = Float32Port<T>;
  return {.x = k.input<T>(0),
          .add = InputOrNull<T>(k, 3),
          .y = k.output<T>(0),
          .weight = InputOrNull<S>(k, 1),
          .bias = InputOrNull<S>(k, 2),
          .batch_mean = k.output<S>(1),
          .batch_var = k.output<S>(2),
          .epsilon = k.options<Fused>().batch_norm().epsilon(),
          .activation = ActivationOf(k)};
}

template <class T>
BatchNormForward<T> InferenceCall(const KernelContext& k) {
  using S = Float32Port<T>;
  return {.x = k.input<T>(0),
          .add = InputOrNull<T>(k, 5),
          .y = k.output<T>(0),
          .weight = InputOrNull<S>(k, 1),
          .bias = InputOrNull<S>(k, 2),
          .mean = k.input<S>(3),
          .var = k.input<S>(4),
          .epsilon = k.options<Fused>().batch_norm().epsilon(),
          .activation = ActivationOf(k)};
}

template <class T>
BatchNormBackward<T> BackwardCall(const KernelContext& k) {
  using S = Float32Port<T>;
  return {.y = k.input<T>(kY),
          .x = k.input<T>(kX),
          .weight = InputOrNull<S>(k, kWeight),
          .mean = k.input<S>(kMean),
          .var = k.input<S>(kVar),
          .dy = k.input<T>(kDy),
          .dy2 = InputOrNull<T>(k, kDy2),
          .dx = k.output<T>(0),
          .dadd = k.num_outputs() > 3 ? k.output<T>(3) : nullptr,
          .dweight = k.output<S>(1),
          .dbias = k.output<S>(2),
          .epsilon = k.options<Fused>().batch_norm().epsilon(),
          .training = true,
          .activation = ActivationOf(k)};
}

absl::Status TrainingCpu(const KernelContext& k) {
  return BatchNormPlainKernel(k, [&](auto zero) { return TrainingCall<decltype(zero)>(k); });
}
absl::Status TrainingFast(const KernelContext& k) {
  return BatchNormFastKernel(k, [&](auto zero) { return TrainingCall<decltype(zero)>(k); });
}
absl::Status InferenceCpu(const KernelContext& k) {
  return BatchNormPlainKernel(k, [&](auto zero) { return InferenceCall<decltype(zero)>(k); });
}
absl::Status InferenceFast(const KernelContext& k) {
  return BatchNormFastKernel(k, [&](auto zero) { return InferenceCall<decltype(zero)>(k); });
}
absl::Status BackwardCpu(const KernelContext& k) {
  return BatchNormPlainKernel(k, [&](auto zero) { return BackwardCall<decltype(zero)>(k); });
}
absl::Status BackwardFast(const KernelContext& k) {
  return BatchNormFastKernel(k, [&](auto zero) { return BackwardCall<decltype(zero)>(k); });
}

// Every activation and shape of these, through `sample`.
template <class Fn>
void ForEachVariant(Fn sample) {
  sample("identity", "activation: IDENTITY", Shape{3, 5, 4, 3});
  sample("relu", "activation: RELU", Shape{3, 5, 4, 3});
  sample("relu6", "activation: RELU6 batch_norm { epsilon: 0.001 }", Shape{7, 19});
  sample("relu_rows", "activation: RELU", Shape{19, 24, 9, 9});
}

void TrainingSamples(SampleBuilder& s) {
  ForEachVariant([&s](const char* name, const char* options, const Shape& x) {
    s.Case(name)
        .With(ParseOptions<Fused>(options))
        .Input(x)
        .Input({x[1]})
        .Range(0.5, 4)
        .Input({x[1]})
        .Range(-1, 4)
        .Input(x);
  });
  s.Case("no_add").With(ParseOptions<Fused>("activation: RELU")).Input({3, 5, 4}).Input({5}).Input({5});
  s.Case("tanh")
      .With(ParseOptions<Fused>("activation: TANH"))
      .Input({3, 5})
      .Input({5})
      .Input({5})
      .Fails("option \"activation\": expected IDENTITY, RELU or RELU6, found TANH");
  s.Case("add")
      .With(ParseOptions<Fused>("activation: RELU"))
      .Input({3, 5})
      .Input({5})
      .Input({5})
      .Input({3, 1})
      .Fails("input 3 \"add\" [3, 1]: expected shape [3, 5]");
}

void InferenceSamples(SampleBuilder& s) {
  ForEachVariant([&s](const char* name, const char* options, const Shape& x) {
    s.Case(name)
        .With(ParseOptions<Fused>(options))
        .Input(x)
        .Input({x[1]})
        .Range(0.5, 4)
        .Input({x[1]})
        .Range(-1, 4)
        .Input({x[1]})
        .Input({x[1]})
        .Range(0.3, 2)
        .Input(x);
  });
  s.Case("no_add").Input({3, 5, 4}).Input({5}).Input({5}).Input({5}).Input({5}).Range(0.3, 2);
  s.Case("statistics").Input({3, 5}).Input({5}).Input({5}).Input({5}).Input({4}).Fails("expected shape [5]");
}

void GradSamples(SampleBuilder& s) {
  ForEachVariant([&s](const char* name, const char* options, const Shape& x) {
    s.Case(name)
        .With(ParseOptions<Fused>(options))
        .Input(x)
        .Range(-5, 10)
        .AwayFrom({0, 6})
        .Input(x)
        .Input({x[1]})
        .Input({x[1]})
        .Range(-0.1, 0.1)
        .Input({x[1]})
        .Range(0.3, 2)
        .Input(x);
  });
  s.Case("dy").Input({3, 5}).Input({3, 5}).Absent().Input({5}).Input({5}).Input({3}).Fails("expected shape [3, 5]");
}

// With and without a second gradient; channels-last and plain are the suite's.
void AddGradSamples(SampleBuilder& s) {
  GradSamples(s);
  ForEachVariant([&s](const char* name, const char* options, const Shape& x) {
    s.Case(absl::StrCat(name, "_dy2"))
        .With(ParseOptions<Fused>(options))
        .Input(x)
        .Range(-5, 10)
        .AwayFrom({0, 6})
        .Input(x)
        .Input({x[1]})
        .Input({x[1]})
        .Range(-0.1, 0.1)
        .Input({x[1]})
        .Range(0.3, 2)
        .Input(x)
        .Input(x);
  });
  s.Case("known_dadd")
      .With(ParseOptions<Fused>("activation: RELU"))
      .Input({4, 1})
      .Values({1, 0, 2, 3})
      .Input({4, 1})
      .Absent()
      .Input({1})
      .Input({1})
      .Range(0.3, 2)
      .Input({4, 1})
      .Values({1, 2, 3, 4})
      .Input({4, 1})
      .Values({10, 20, 30, 40})
      .Expect(2, {88})
      .Expect(3, {11, 0, 33, 44});
  s.Case("dy2").Input({3, 5}).Input({3, 5}).Absent().Input({5}).Input({5}).Input({3, 5}).Input({5}).Fails(
      "input 6 \"dy2\" [5]: expected shape [3, 5]");
}

}  // namespace

SNUG_OPS(batch_norm_fused) {
  const auto gradient = [](absl::string_view name, absl::string_view doc, InferFn infer) {
    return OpDef{
        .name = name,
        .doc = doc,
        .inputs = {{"y"},
                   {"x"},
                   {"weight", PortType::kFloat32, true},
                   {"mean", PortType::kFloat32},
                   {"var", PortType::kFloat32},
                   {"dy"}},
        .outputs = {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}},
        .infer = infer,
        .aliases = {{Alias::Kind::kMayShare, 0, kDy}, {Alias::Kind::kMayShare, 0, kX}, {Alias::Kind::kMayShare, 0, kY}},
        .traits = {.layout = LayoutRule::kPrefers},
        .prepare = Prepare,
        .cost = CostOfNode<10>,
        .cpu = BackwardCpu,
        .cpu_fast = BackwardFast,
        .samples = GradSamples};
  };
  OpDef grad = gradient("batch_norm_fused_grad", "dx, dweight, dbias of batch_norm_fused", InferGrad);
  OpDef add_grad = gradient("batch_norm_fused_add_grad", "dx, dweight, dbias, dadd of batch_norm_fused, given dy + dy2",
                            InferAddGrad);
  add_grad.inputs.push_back({.name = "dy2", .optional = true});
  add_grad.outputs.push_back({"dadd"});
  // Never dadd on x: dx is computed from both.
  add_grad.aliases.push_back({Alias::Kind::kMayShare, 0, kDy2});
  for (const int input : {kDy, kDy2, kY}) add_grad.aliases.push_back({Alias::Kind::kMayShare, 3, input});
  add_grad.samples = AddGradSamples;
  return {{.name = "batch_norm_fused",
           .doc = "y = activation(batch_norm(x) + add)",
           .inputs = {{"x"},
                      {"weight", PortType::kFloat32, true},
                      {"bias", PortType::kFloat32, true},
                      {"add", PortType::kFloating, true}},
           .outputs = {{"y"},
                       {.name = "mean", .type = PortType::kFloat32, .no_gradient = true},
                       {.name = "var", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = InferTraining,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}, {Alias::Kind::kMayShare, 0, 3}},
           .traits = {.layout = LayoutRule::kPrefers},
           .prepare = Prepare,
           .cost = CostOfNode<9>,
           .cpu = TrainingCpu,
           .cpu_fast = TrainingFast,
           .samples = TrainingSamples},
          {.name = "batch_norm_inference_fused",
           .doc = "y = activation(batch_norm_inference(x) + add)",
           .inputs = {{"x"},
                      {"weight", PortType::kFloat32, true},
                      {"bias", PortType::kFloat32, true},
                      {"running_mean", PortType::kFloat32},
                      {"running_var", PortType::kFloat32},
                      {"add", PortType::kFloating, true}},
           .outputs = {{"y"}},
           .infer = InferInference,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}, {Alias::Kind::kMayShare, 0, 5}},
           .traits = {.layout = LayoutRule::kPrefers},
           .prepare = Prepare,
           .cost = CostOfNode<5>,
           .cpu = InferenceCpu,
           .cpu_fast = InferenceFast,
           .samples = InferenceSamples},
          std::move(grad),
          std::move(add_grad)};
}

}  // namespace snug::ops
