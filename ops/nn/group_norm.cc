// group_norm: normalises each group of neighbouring channels (axis 1) of each sample by its own mean and variance (Wu,
// He 2018); and its gradient. The kernels are in ops/kernels/group_norm.
#include "ops/kernels/group_norm/group_norm.h"

#include <absl/strings/str_cat.h>

#include <vector>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/group_norm/cuda.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/layer_context.h"
#include "ops/nn/norm_chunks.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::group_norm {
namespace {

using proto::ParseOptions;

absl::Status CheckGroups(const InferContext& c) {
  const auto& options = c.options<proto::GroupNorm>();
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const int64_t channels = c.shape(0)[1];
  if (options.groups() < 1 || channels % options.groups() != 0) {
    return c.OptionError("groups",
                         absl::StrCat("expected a divisor of ", channels, " (the channels), found ", options.groups()));
  }
  if (!(options.epsilon() >= 0)) {
    return c.OptionError("epsilon", absl::StrCat("expected at least 0, found ", options.epsilon()));
  }
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckGroups(c));
  const ValueType& x = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, {x.shape[1]}));
  }
  c.SetOutput(0, x);
  const Shape statistics = {x.shape[0], c.options<proto::GroupNorm>().groups()};
  for (const int statistic : {1, 2}) c.SetOutput(statistic, Float32PortType(x.dtype), statistics);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckGroups(c));
  const ValueType& x = c.input(0);
  const Shape channels = {x.shape[1]};
  if (c.has_input(1)) SNUG_RETURN_IF_ERROR(c.CheckShape(1, channels));
  const Shape statistics = {x.shape[0], c.options<proto::GroupNorm>().groups()};
  for (const int statistic : {2, 3}) SNUG_RETURN_IF_ERROR(c.CheckShape(statistic, statistics));
  SNUG_RETURN_IF_ERROR(c.CheckShape(4, x.shape));
  c.SetOutput(0, c.input(4));
  for (const int gradient : {1, 2}) c.SetOutput(gradient, Float32PortType(x.dtype), channels);
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  const auto& options = c.options<proto::GroupNorm>();
  std::vector<ValueId> inputs = c.inputs();
  const bool valid = inputs.size() == 1 && c.type(inputs[0]).shape.rank() >= 2;
  if (valid && options.affine()) {  // otherwise shape inference says what is wrong
    c.AppendScaleAndShift({c.type(inputs[0]).shape[1]}, &inputs);
  }
  c.SetOutput(0, c.Op("group_norm", inputs, c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads =
      g.Ops("group_norm_grad",
            {g.input(0), g.has_input(1) ? g.input(1) : ValueId(), g.output(1), g.output(2), g.output_grad(0)},
            g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

GroupView ViewOf(const NodeTypes& types) { return {types.input(0), types.options.Get<proto::GroupNorm>().groups()}; }

// Makes room for two numbers of each chunk and channel, and `numbers` of each sample and channel.
void SetWorkspace(PrepareContext& c, const GroupView& view, int64_t numbers) {
  c.SetWorkspaceBytes(view.samples * (view.chunks * 2 + numbers) * view.channels *
                      SizeOf(Float32PortType(c.types().input(0).dtype)));
}

absl::Status Prepare(PrepareContext& c) {
  const GroupView view = ViewOf(c.types());
  if (view.side_by_side) SetWorkspace(c, view, /*numbers=*/0);
  return absl::OkStatus();
}

absl::Status PrepareGrad(PrepareContext& c) {
  const GroupView view = ViewOf(c.types());
  SetWorkspace(c, view, view.side_by_side ? kGroupGradNumbers : 0);
  return absl::OkStatus();
}

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const GroupView view = ViewOf(k.types());
    const GroupNormForward<T> call(k, k.options<proto::GroupNorm>().epsilon());
    if (view.side_by_side) {
      NormalizeSideBySide(k.threads(), view, call, k.workspace<Accumulator<T>>());
    } else {
      NormalizeTogether(k.threads(), view, call);
    }
    return absl::OkStatus();
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const GroupView view = ViewOf(k.types());
    const GroupNormBackward<T> call(k);
    S* const sums = k.workspace<S>();
    if (view.side_by_side) {
      GradSideBySide(k.threads(), view, call, sums);
    } else {
      GradTogether(k.threads(), view, call, sums);
    }
    const int64_t step = view.chunks * 2 * view.channels;
    AddNormChunks(k.threads(), view.samples, step, view.channels, sums, call.dweight);
    AddNormChunks(k.threads(), view.samples, step, view.channels, sums + view.channels, call.dbias);
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x) -> Sample& {
    return s.Case(name)
        .With(ParseOptions<proto::GroupNorm>(options))
        .Input(x)
        .Input({x[1]})
        .Range(0.5, 2)
        .Input({x[1]});
  };
  affine("image", "groups: 2", {3, 6, 4, 3});
  affine("one_group", "groups: 1 epsilon: 0.01", {2, 3, 5, 5});
  affine("group_for_each_channel", "groups: 5", {3, 5, 4, 7});
  affine("signal", "groups: 3", {2, 9, 19});
  affine("volume", "groups: 4", {2, 16, 3, 2, 5});
  affine("vector", "groups: 7", {5, 133});
  affine("one_pixel", "groups: 11", {2, 33, 1, 1});
  affine("one_channel", "groups: 1", {2, 1, 35, 37});
  affine("chunks", "groups: 2", {2, 68, 33, 31});
  affine("many_channels", "groups: 37", {2, 259, 3, 3});
  affine("packs", "groups: 4", {2, 32, 5, 7});
  affine("parts", "groups: 2", {2, 16, 24, 25});
  s.Case("no_affine").With(ParseOptions<proto::GroupNorm>("groups: 3 affine: false")).Input({3, 6, 4, 3});
  s.Case("no_bias").With(ParseOptions<proto::GroupNorm>("groups: 2")).Input({3, 6, 4}).Input({6});
  affine("far_from_zero", "groups: 2", {2, 4, 7, 5}).Tolerance(2e-5, 5e-2);
  s.Case("hot_pixel")  // a single number that is not 0 decides mean and variance
      .With(ParseOptions<proto::GroupNorm>("groups: 1"))
      .Input({1, 1, 2, 4})
      .Values({8, 0, 0, 0, 0, 0, 0, 0})
      .NoGradient();
  s.Case("known")
      .With(ParseOptions<proto::GroupNorm>("groups: 2 epsilon: 0"))
      .Input({1, 4, 1})
      .Values({1, 3, 5, 5.5})
      .NoGradient()
      .Input({4})
      .Values({1, 2, 3, 4})
      .NoGradient()
      .Input({4})
      .Values({0, 10, 20, 30})
      .NoGradient()
      .Expect(0, {-1, 12, 17, 34})
      .Expect(1, {2, 5.25})
      .Expect(2, {1, 4});
  s.Case("rank").With(ParseOptions<proto::GroupNorm>("groups: 1")).Input({5}).Fails("expected 2 to 8 dimensions");
  s.Case("groups")
      .With(ParseOptions<proto::GroupNorm>("groups: 4"))
      .Input({3, 6, 4})
      .Fails("option \"groups\": expected a divisor of 6 (the channels), found 4");
  s.Case("no_groups").Input({3, 6, 4}).Fails("option \"groups\": expected a divisor of 6 (the channels), found 0");
  s.Case("epsilon")
      .With(ParseOptions<proto::GroupNorm>("groups: 2 epsilon: -1"))
      .Input({3, 6})
      .Fails("option \"epsilon\": expected at least 0, found -1");
  s.Case("weight")
      .With(ParseOptions<proto::GroupNorm>("groups: 2"))
      .Input({3, 6, 4})
      .Input({4})
      .Fails("input 1 \"weight\" [4]: expected shape [6]");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, int64_t groups, const Shape& x) {
    proto::GroupNorm options;
    options.set_groups(groups);
    s.Case(name)
        .With(proto::MakeOptions(options))
        .Input(x)
        .Input({x[1]})
        .Input({x[0], groups})
        .Range(-0.1, 0.1)
        .Input({x[0], groups})
        .Range(0.5, 2)
        .Input(x);
  };
  affine("image", 2, {3, 6, 4, 3});
  affine("group_for_each_channel", 5, {3, 5, 4, 7});
  affine("vector", 7, {5, 133});
  affine("one_channel", 1, {2, 1, 35, 37});
  affine("chunks", 2, {2, 68, 33, 31});
  affine("many_channels", 37, {2, 259, 3, 3});
  affine("packs", 4, {2, 32, 5, 7});
  affine("parts", 2, {2, 16, 24, 25});
  s.Case("no_affine")
      .With(ParseOptions<proto::GroupNorm>("groups: 3"))
      .Input({3, 6, 4})
      .Absent()
      .Input({3, 3})
      .Input({3, 3})
      .Range(0.5, 2)
      .Input({3, 6, 4});
  s.Case("mean")
      .With(ParseOptions<proto::GroupNorm>("groups: 2"))
      .Input({3, 6})
      .Input({6})
      .Input({3, 6})
      .Input({3, 2})
      .Input({3, 6})
      .Fails("input 2 \"mean\" [3, 6]: expected shape [3, 2]");
}

}  // namespace

SNUG_OPS(group_norm) {
  return {{.name = "group_norm",
           .doc = "y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of each group of channels",
           .inputs = {{"x"}, {"weight", PortType::kFloat32, true}, {"bias", PortType::kFloat32, true}},
           .outputs = {{"y"},
                       {.name = "mean", .type = PortType::kFloat32, .no_gradient = true},
                       {.name = "inv_std", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = FlopsPerElement<8>,
           .kernels = {{.name = "plain", .prepare = Prepare, .run = ForwardCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                          const GroupView view = ViewOf(c.types());
                          if (GroupsAreColumns(view)) c.SetWorkspaceBytes(NormalizeSideBySideCudaWorkspace(view));
                          return absl::OkStatus();
                        }),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          const auto run =
                              GroupsAreColumns(ViewOf(k.types())) ? NormalizeSideBySideCuda : NormalizeTogetherCuda;
                          return run(k, ViewOf(k.types()), k.options<proto::GroupNorm>().epsilon());
                        })}},
           .samples = Samples},
          {.name = "group_norm_grad",
           .doc = "dx, dweight, dbias of group_norm",
           .inputs = {{"x"},
                      {"weight", PortType::kFloat32, true},
                      {"mean", PortType::kFloat32},
                      {"inv_std", PortType::kFloat32},
                      {"dy"}},
           .outputs = {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = FlopsPerElement<14>,
           .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = BackwardCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                          const GroupView view = ViewOf(c.types());
                          c.SetWorkspaceBytes(GroupsAreColumns(view) ? GradSideBySideCudaWorkspace(view)
                                                                     : GradTogetherCudaWorkspace(view));
                          return absl::OkStatus();
                        }),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          const GroupView view = ViewOf(k.types());
                          return GroupsAreColumns(view) ? GradSideBySideCuda(k, view) : GradTogetherCuda(k, view);
                        })}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::group_norm
