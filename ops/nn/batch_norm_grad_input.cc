// batch_norm_grad_input: dx of a batch norm whose dweight and dbias are known, in one sweep. Only the pass
// sum_in_convolution makes it, behind a convolution's gradient that took these two on the way
// (ops/linear/conv_grad_input_sums.cc).
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kit/costs.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::batch_norm_grad_input {
namespace {

using proto::ParseOptions;

enum Input { kX, kWeight, kMean, kVar, kDy, kDWeight, kDBias };

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, kX, kWeight, kDy));
  SNUG_RETURN_IF_ERROR(CheckChannelPorts(c, kX, kDWeight, kDBias + 1));
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, c.options<proto::BatchNorm>().epsilon()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kDy, c.shape(kX)));
  c.SetOutput(0, c.input(kDy));
  return absl::OkStatus();
}

struct GradInput {
  template <class T>
  static BatchNormGradInput<T> Make(const KernelContext& k) {
    using S = Float32Port<T>;
    return {.x = k.input<T>(kX),
            .weight = InputOrNull<S>(k, kWeight),
            .mean = k.input<S>(kMean),
            .var = k.input<S>(kVar),
            .dy = k.input<T>(kDy),
            .dweight = k.input<S>(kDWeight),
            .dbias = k.input<S>(kDBias),
            .dx = k.output<T>(0),
            .epsilon = k.options<proto::BatchNorm>().epsilon()};
  }
};

absl::Status Prepare(PrepareContext& c) {
  c.SetWorkspaceBytes(BatchNormGradInputWorkspace(ChannelView(c.types().input(kX))));
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  const auto sample = [&s](const char* name, const Shape& x, bool affine = true) {
    Sample& norm = s.Case(name).Input(x);
    affine ? norm.Input({x[1]}) : norm.Absent();
    norm.Input({x[1]}).Range(-0.1, 0.1).Input({x[1]}).Range(0.3, 2).Input(x).Input({x[1]}).Range(-5, 5);
    norm.Input({x[1]}).Range(-5, 5);
  };
  sample("image", {3, 5, 4, 3});
  sample("vector", {7, 19});
  sample("rows", {17, 48, 3, 3});
  sample("many_channels", {5, 259, 2, 2});
  sample("planes", {3, 2, 70, 67});
  sample("chunks", {45, 272, 2, 2});
  sample("no_affine", {3, 5, 4}, false);
  sample("no_rows", {0, 5, 4, 3});
  s.Case("known")
      .With(ParseOptions<proto::BatchNorm>("epsilon: 0"))
      .Input({2, 1})
      .Values({1, 3})
      .Input({1})
      .Values({10})
      .Input({1})
      .Values({2})
      .Input({1})
      .Values({4})
      .Input({2, 1})
      .Values({5, 6})
      .Input({1})
      .Values({0.5})
      .Input({1})
      .Values({11})
      .Expect(0, {-1.875, 1.875});
  s.Case("dbias").Input({3, 5}).Absent().Input({5}).Input({5}).Input({3, 5}).Input({5}).Input({4}).Fails(
      "input 6 \"dbias\" [4]: expected shape [5]");
}

}  // namespace

SNUG_OPS(batch_norm_grad_input) {
  return {{.name = "batch_norm_grad_input",
           .doc = "dx of batch_norm, given dweight and dbias",
           .inputs = {{"x"},
                      {"weight", PortType::kFloat32, true},
                      {"mean", PortType::kFloat32},
                      {"var", PortType::kFloat32},
                      {"dy"},
                      {"dweight", PortType::kFloat32},
                      {"dbias", PortType::kFloat32}},
           .outputs = {{"dx"}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, 0, kDy}, {Alias::Kind::kMayShare, 0, kX}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<5>,
           .kernels = {{.name = "own", .serves = NotInDouble, .prepare = Prepare, .run = BatchNormCpuFast<GradInput>},
                       Plain(BatchNormCpu<GradInput>)},
           .samples = Samples}};
}

}  // namespace snug::core::ops::batch_norm_grad_input
