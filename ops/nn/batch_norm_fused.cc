// Batch normalisation with an addition and an activation in the same sweep, forward, backward and for inference. Only
// the fusion pass makes these nodes, after the backward graph is there, so they have no gradients of their own. The
// backward pass computes what the activation let through anew from x or, after an addition, reads it from y.
#include <absl/strings/str_cat.h>

#include <vector>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kernels/batch_norm/rows.h"
#include "ops/kit/costs.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::batch_norm_fused {
namespace {

using Fused = proto::FusedBatchNorm;
using proto::ParseOptions;

// The ports of the backward op with an addition.
enum AddGradInput { kAddY, kAddX, kAddWeight, kAddMean, kAddVar, kAddDy, kAddDy2 };

absl::Status CheckActivation(const InferContext& c) {
  switch (const auto activation = c.options<Fused>().activation()) {
    case proto::IDENTITY:
    case proto::RELU:
    case proto::RELU6:
      return absl::OkStatus();
    default:
      return c.OptionError(
          "activation", absl::StrCat("expected IDENTITY, RELU or RELU6, found ", proto::Activation_Name(activation)));
  }
}

template <class Context>  // of inference or of a kernel
double EpsilonOf(const Context& c) {
  return c.template options<Fused>().batch_norm().epsilon();
}
Activation ActivationOf(const KernelContext& k) { return FromProto(k.options<Fused>().activation()); }

absl::Status InferTraining(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckActivation(c));
  SNUG_RETURN_IF_ERROR(InferBatchNormTraining(c, EpsilonOf(c)));
  return c.has_input(3) ? c.CheckShape(3, c.shape(0)) : absl::OkStatus();
}

absl::Status InferInference(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckActivation(c));
  SNUG_RETURN_IF_ERROR(InferBatchNormInference(c, EpsilonOf(c)));
  return c.has_input(5) ? c.CheckShape(5, c.shape(0)) : absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckActivation(c));
  return InferBatchNormActivatedGrad(c, EpsilonOf(c));
}

absl::Status InferAddGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckActivation(c));
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, kAddX, kAddWeight, kAddVar + 1));
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, EpsilonOf(c)));
  for (const int like_x : {kAddY, kAddDy, kAddDy2}) {
    if (c.has_input(like_x)) SNUG_RETURN_IF_ERROR(c.CheckShape(like_x, c.shape(kAddX)));
  }
  SetBatchNormGrads(c, kAddX);
  c.SetOutput(3, c.input(kAddX));
  return absl::OkStatus();
}

struct Training {
  template <class T>
  static BatchNormForward<T> Make(const KernelContext& k) {
    auto call = BatchNormTrainingCall<T>(k, EpsilonOf(k));
    call.add = InputOrNull<T>(k, 3);
    call.activation = ActivationOf(k);
    return call;
  }
};

struct Inference {
  template <class T>
  static BatchNormForward<T> Make(const KernelContext& k) {
    auto call = BatchNormInferenceCall<T>(k, EpsilonOf(k));
    call.add = InputOrNull<T>(k, 5);
    call.activation = ActivationOf(k);
    return call;
  }
};

struct Grad {
  template <class T>
  static BatchNormBackward<T> Make(const KernelContext& k) {
    auto call = BatchNormActivatedGradCall<T>(k, EpsilonOf(k));
    call.activation = ActivationOf(k);
    return call;
  }
};

struct AddGrad {
  template <class T>
  static BatchNormBackward<T> Make(const KernelContext& k) {
    using S = Float32Port<T>;
    return {.y = k.input<T>(kAddY),
            .x = k.input<T>(kAddX),
            .weight = InputOrNull<S>(k, kAddWeight),
            .mean = k.input<S>(kAddMean),
            .var = k.input<S>(kAddVar),
            .dy = k.input<T>(kAddDy),
            .dy2 = InputOrNull<T>(k, kAddDy2),
            .dx = k.output<T>(0),
            .dadd = k.output<T>(3),
            .dweight = k.output<S>(1),
            .dbias = k.output<S>(2),
            .epsilon = EpsilonOf(k),
            .training = true,
            .activation = ActivationOf(k)};
  }
};

std::vector<Port> AndAdd(std::vector<Port> inputs) {
  inputs.push_back({.name = "add", .optional = true});
  return inputs;
}

// Calls `sample` for every activation and shape.
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
        .Input({x[1]})
        .Range(0.5, 4)
        .Input({x[1]})
        .Range(-1, 4)
        .Input({x[1]})
        .Range(-0.1, 0.1)
        .Input({x[1]})
        .Range(0.3, 2)
        .Input(x);
  });
  s.Case("no_bias")
      .With(ParseOptions<Fused>("activation: RELU"))
      .Input({4, 1})
      .Values({-1, 2, -3, 4})
      .Absent()
      .Absent()
      .Input({1})
      .Values({0})
      .Input({1})
      .Range(0.3, 2)
      .Input({4, 1})
      .Values({10, 20, 30, 40})
      .Expect(2, {60});
  s.Case("dy").Input({3, 5}).Absent().Absent().Input({5}).Input({5}).Input({3}).Fails("expected shape [3, 5]");
}

// Adds samples with and without a second gradient. The conformance suite tries layouts.
void AddGradSamples(SampleBuilder& s) {
  ForEachVariant([&s](const char* name, const char* options, const Shape& x) {
    for (const bool second : {false, true}) {
      auto& sample = s.Case(absl::StrCat(name, second ? "_dy2" : ""))
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
      if (second) sample.Input(x);
    }
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
  return {{.name = "batch_norm_fused",
           .doc = "y = activation(batch_norm(x) + add)",
           .inputs = AndAdd(BatchNormInputs()),
           .outputs = BatchNormTrainingOutputs(),
           .infer = InferTraining,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}, {Alias::Kind::kMayShare, 0, 3}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<9>,
           .kernels = BatchNormKernels<Training>(),
           .samples = TrainingSamples},
          {.name = "batch_norm_inference_fused",
           .doc = "y = activation(batch_norm_inference(x) + add)",
           .inputs = AndAdd(BatchNormInferenceInputs()),
           .outputs = {{"y"}},
           .infer = InferInference,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}, {Alias::Kind::kMayShare, 0, 5}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<5>,
           .kernels = BatchNormKernels<Inference>(),
           .samples = InferenceSamples},
          {.name = "batch_norm_fused_grad",
           .doc = "dx, dweight, dbias of batch_norm_fused without an addition",
           .inputs = BatchNormActivatedGradInputs(),
           .outputs = BatchNormGradOutputs(),
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 5}, {Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<10>,
           .kernels = BatchNormKernels<Grad>(),
           .samples = GradSamples},
          {.name = "batch_norm_fused_add_grad",
           .doc = "dx, dweight, dbias, dadd of batch_norm_fused, given dy + dy2",
           .inputs = {{"y"},
                      {"x"},
                      {"weight", PortType::kFloat32, true},
                      {"mean", PortType::kFloat32},
                      {"var", PortType::kFloat32},
                      {"dy"},
                      {.name = "dy2", .optional = true}},
           .outputs = {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}, {"dadd"}},
           .infer = InferAddGrad,
           // dadd may never lie on x, because dx is computed from both.
           .aliases = {{Alias::Kind::kMayShare, 0, kAddDy},
                       {Alias::Kind::kMayShare, 0, kAddX},
                       {Alias::Kind::kMayShare, 0, kAddY},
                       {Alias::Kind::kMayShare, 0, kAddDy2},
                       {Alias::Kind::kMayShare, 3, kAddDy},
                       {Alias::Kind::kMayShare, 3, kAddDy2},
                       {Alias::Kind::kMayShare, 3, kAddY}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<10>,
           .kernels = BatchNormKernels<AddGrad>(),
           .samples = AddGradSamples}};
}

}  // namespace snug::core::ops::batch_norm_fused
