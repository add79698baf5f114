// batch_norm: normalises each channel (axis 1) by the mean and variance of the batch, its gradient, and the update of
// the running statistics. A layer becomes batch_norm_inference where nothing is trained.
#include "ops/kernels/batch_norm/batch_norm.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/cuda.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kernels/batch_norm/rows.h"
#include "ops/kit/costs.h"
#include "ops/kit/cuda/together.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::batch_norm {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) { return InferBatchNormTraining(c, c.options<proto::BatchNorm>().epsilon()); }

absl::Status InferUpdate(InferContext& c) {
  const auto& options = c.options<proto::StatisticUpdate>();
  if (!(options.momentum() >= 0 && options.momentum() <= 1)) {
    return c.OptionError("momentum", absl::StrCat("expected 0 to 1, found ", options.momentum()));
  }
  if (options.count() < 2) {
    return c.OptionError("count", absl::StrCat("expected at least 2, found ", options.count()));
  }
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 1, 1));
  for (int i = 1; i < 4; ++i) {
    SNUG_RETURN_IF_ERROR(c.CheckShape(i, c.shape(0)));
    if (c.input(i).dtype != c.input(0).dtype) {
      return c.InputError(i, absl::StrCat("expected ", Name(c.input(0).dtype), ", found ", Name(c.input(i).dtype)));
    }
  }
  return c.CheckShape(4, Shape());
}

absl::Status Layer(LayerContext& c) {
  const auto& options = c.options<proto::BatchNorm>();
  std::vector<ValueId> inputs = c.inputs();
  if (inputs.size() != 1 || c.type(inputs[0]).shape.rank() < 2) {  // shape inference then says what is wrong
    c.Op("batch_norm", inputs, c.options_handle());
    return c.status();
  }
  const Shape channels = {c.type(inputs[0]).shape[1]};
  if (options.affine()) {
    c.AppendScaleAndShift(channels, &inputs);
  } else {
    inputs.resize(3);
  }
  const ValueId running_mean = c.Statistic("running_mean", channels, 0);
  const ValueId running_var = c.Statistic("running_var", channels, 1);
  if (!c.training()) {
    inputs.insert(inputs.end(), {running_mean, running_var});
    c.SetOutput(0, c.Op("batch_norm_inference", inputs, c.options_handle()));
    return c.status();
  }
  const std::vector<ValueId> outputs = c.Ops("batch_norm", inputs, c.options_handle());
  if (!c.status().ok()) return c.status();
  c.SetOutput(0, outputs[0]);
  proto::StatisticUpdate update;
  update.set_momentum(options.momentum());
  update.set_count(ChannelView(c.type(inputs[0])).count());
  c.Update("batch_norm_update", {running_mean, running_var, outputs[1], outputs[2]}, proto::MakeOptions(update));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads =
      g.Ops("batch_norm_grad",
            {g.input(0), g.has_input(1) ? g.input(1) : ValueId(), g.output(1), g.output(2), g.output_grad(0)},
            g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

struct Forward {
  template <class T>
  static BatchNormForward<T> Make(const KernelContext& k) {
    return BatchNormTrainingCall<T>(k, k.options<proto::BatchNorm>().epsilon());
  }
};

struct Backward {
  template <class T>
  static BatchNormBackward<T> Make(const KernelContext& k) {
    return BatchNormGradCall<T>(k, k.options<proto::BatchNorm>().epsilon(), /*training=*/true);
  }
};

absl::Status PrepareUpdate(PrepareContext& c) {
  const auto& options = c.options<proto::StatisticUpdate>();
  c.SetKernel(
      std::make_shared<StatisticNumbers>(StatisticNumbers{options.momentum(), static_cast<double>(options.count())}));
  return absl::OkStatus();
}

absl::Status UpdateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(0).dtype, [&](auto zero, auto) {
    using T = decltype(zero);
    const auto& options = k.options<proto::StatisticUpdate>();
    const double momentum = options.momentum();
    const double n = static_cast<double>(options.count());
    for (int64_t c = 0; c < k.input_type(0).num_elements(); ++c) {
      T& mean = k.variable<T>(0)[c];
      T& var = k.variable<T>(1)[c];
      mean =
          static_cast<T>((1 - momentum) * static_cast<double>(mean) + momentum * static_cast<double>(k.input<T>(2)[c]));
      var = static_cast<T>((1 - momentum) * static_cast<double>(var) +
                           momentum * static_cast<double>(k.input<T>(3)[c]) * n / (n - 1));
    }
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const Shape& x) -> Sample& {
    return s.Case(name).Input(x).Input({x[1]}).Range(0.5, 2).Input({x[1]});
  };
  affine("image", {3, 5, 4, 3});
  affine("vector", {7, 19});
  affine("signal", {4, 3, 11});
  affine("volume", {2, 16, 3, 2, 5});
  affine("one_channel", {2, 1, 5, 5});
  affine("one_pixel", {9, 33, 1, 1});
  affine("rows", {17, 48, 3, 3});
  affine("many_channels", {5, 259, 2, 2});
  affine("planes", {3, 2, 70, 67});
  affine("chunks", {45, 272, 2, 2});
  affine("folded_chunks", {19, 24, 9, 9});
  affine("whole_packs", {3, 5, 4, 6});
  affine("half_packs", {2, 3, 2, 22});
  affine("long_runs", {2, 2, 52, 80});
  s.Case("no_affine").With(ParseOptions<proto::BatchNorm>("affine: false epsilon: 0.1")).Input({3, 5, 4, 3});
  s.Case("no_bias").Input({3, 5, 4, 3}).Input({5}).Absent();
  s.Case("far_from_zero").Input({5, 3, 6, 6}).Range(30, 32).Input({3}).Input({3}).Tolerance(2e-5, 5e-2);
  s.Case("known")
      .With(ParseOptions<proto::BatchNorm>("epsilon: 0"))
      .Input({2, 2})
      .Values({1, 5, 3, 5.5})
      .NoGradient()
      .Expect(0, {-1, -1, 1, 1})
      .Expect(1, {2, 5.25})
      .Expect(2, {1, 0.0625});
  s.Case("rank").Input({5}).Fails("expected 2 to 8 dimensions");
  s.Case("weight").Input({3, 5, 4}).Input({4}).Fails("input 1 \"weight\" [4]: expected shape [5]");
  s.Case("one_element").Input({1, 5}).Fails("expected more than one element per channel in training, found 1");
  s.Case("no_rows").Input({0, 5, 4, 3}).Fails("expected more than one element per channel in training, found 0");
  s.Case("epsilon").With(ParseOptions<proto::BatchNorm>("epsilon: -1")).Input({3, 5}).Fails("option \"epsilon\"");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const Shape& x) {
    s.Case(name).Input(x).Input({x[1]}).Input({x[1]}).Range(-0.1, 0.1).Input({x[1]}).Range(0.3, 2).Input(x);
  };
  affine("image", {3, 5, 4, 3});
  affine("vector", {7, 19});
  affine("rows", {17, 48, 3, 3});
  affine("many_channels", {5, 259, 2, 2});
  affine("planes", {3, 2, 70, 67});
  affine("chunks", {45, 272, 2, 2});
  affine("folded_chunks", {19, 24, 9, 9});
  affine("whole_packs", {3, 5, 4, 6});
  affine("half_packs", {2, 3, 2, 22});
  affine("long_runs", {2, 2, 52, 80});
  affine("no_rows", {0, 5, 4, 3});
  s.Case("no_affine").Input({3, 5, 4}).Absent().Input({5}).Input({5}).Range(0.3, 2).Input({3, 5, 4});
  s.Case("dy").Input({3, 5}).Input({5}).Input({5}).Input({5}).Input({3, 4}).Fails(
      "input 4 \"dy\" [3, 4]: expected shape [3, 5]");
}

void UpdateSamples(SampleBuilder& s) {
  const auto options = ParseOptions<proto::StatisticUpdate>("momentum: 0.1 count: 5");
  const auto with = [&](const char* name, double gate) {
    s.Case(name).With(options).Input({7}).Input({7}).Range(0.5, 2).Input({7}).Input({7}).Range(0.5, 2).Bytes({}).Values(
        {gate});
  };
  with("open", 1);
  with("closed", 0);
  s.Case("known")
      .With(ParseOptions<proto::StatisticUpdate>("momentum: 0.25 count: 5"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({1, 2})
      .Input({2})
      .Values({3, 2})
      .Input({2})
      .Values({4, 8})
      .Bytes({})
      .Values({1})
      .ExpectMutated(0, {1.5, -1})
      .ExpectMutated(1, {2, 4});
  s.Case("count")
      .With(ParseOptions<proto::StatisticUpdate>("momentum: 0.1 count: 1"))
      .Input({7})
      .Input({7})
      .Input({7})
      .Input({7})
      .Bytes({})
      .Fails("option \"count\": expected at least 2, found 1");
  s.Case("shape").With(options).Input({7}).Input({7}).Input({6}).Input({7}).Bytes({}).Fails("expected shape [7]");
}

}  // namespace

SNUG_OPS(batch_norm) {
  return {{.name = "batch_norm",
           .doc = "y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var over every axis but 1",
           .inputs = BatchNormInputs(),
           .outputs = BatchNormTrainingOutputs(),
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<7>,
           .kernels = BatchNormKernels<Forward>(),
           .samples = Samples},
          {.name = "batch_norm_grad",
           .doc = "dx, dweight, dbias of batch_norm",
           .inputs = {{"x"},
                      {"weight", PortType::kFloat32, true},
                      {"mean", PortType::kFloat32},
                      {"var", PortType::kFloat32},
                      {"dy"}},
           .outputs = BatchNormGradOutputs(),
           .infer = InferBatchNormGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<9>,
           .kernels = BatchNormKernels<Backward>(),
           .samples = GradSamples},
          {.name = "batch_norm_update",
           .doc = "running = (1 - momentum) running + momentum batch, the variance unbiased",
           .inputs = {{"running_mean", PortType::kFloat32},
                      {"running_var", PortType::kFloat32},
                      {"mean", PortType::kFloat32},
                      {"var", PortType::kFloat32},
                      {"gate", PortType::kBytes}},
           .outputs = {},
           .infer = InferUpdate,
           .aliases = {{Alias::Kind::kMutates, 0, 0}, {Alias::Kind::kMutates, 0, 1}},
           .kernels = {Plain(UpdateCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = PrepareUpdate,
                        .run = SNUG_IF_CUDA(Alone<BatchNormUpdateCuda>),
                        .together = SNUG_IF_CUDA(BatchNormUpdateCuda)}},
           .samples = UpdateSamples}};
}

}  // namespace snug::core::ops::batch_norm
