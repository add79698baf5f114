// batch_norm_inference: normalises each channel by statistics that are given, and its gradient.
#include <vector>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kernels/batch_norm/rows.h"
#include "ops/kit/costs.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::batch_norm_inference {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) { return InferBatchNormInference(c, c.options<proto::BatchNorm>().epsilon()); }

absl::Status Gradient(GradContext& g) {
  if (g.wants(3) || g.wants(4)) {
    g.Fail(absl::InvalidArgumentError("batch_norm_inference has no gradient of its running statistics"));
    return g.status();
  }
  const std::vector<ValueId> grads =
      g.Ops("batch_norm_inference_grad", {g.input(0), g.input(1), g.input(3), g.input(4), g.output_grad(0)},
            g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

struct Forward {
  template <class T>
  static BatchNormForward<T> Make(const KernelContext& k) {
    return BatchNormInferenceCall<T>(k, k.options<proto::BatchNorm>().epsilon());
  }
};

struct Backward {
  template <class T>
  static BatchNormBackward<T> Make(const KernelContext& k) {
    return BatchNormGradCall<T>(k, k.options<proto::BatchNorm>().epsilon(), /*training=*/false);
  }
};

void Samples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const Shape& x) {
    s.Case(name)
        .Input(x)
        .Input({x[1]})
        .Range(0.5, 2)
        .Input({x[1]})
        .Input({x[1]})
        .NoGradient()
        .Input({x[1]})
        .Range(0.3, 2)
        .NoGradient();
  };
  affine("image", {3, 5, 4, 3});
  affine("vector", {1, 19});
  affine("rows", {19, 24, 9, 9});
  affine("many_channels", {2, 259, 2, 2});
  s.Case("no_affine")
      .With(ParseOptions<proto::BatchNorm>("affine: false epsilon: 0.1"))
      .Input({3, 5, 4})
      .Absent()
      .Absent()
      .Input({5})
      .NoGradient()
      .Input({5})
      .Range(0.3, 2)
      .NoGradient();
  s.Case("statistics").Input({3, 5}).Absent().Absent().Input({5}).Input({4}).Fails("expected shape [5]");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const Shape& x) {
    s.Case(name).Input(x).Input({x[1]}).Input({x[1]}).Range(-0.1, 0.1).Input({x[1]}).Range(0.3, 2).Input(x);
  };
  affine("image", {3, 5, 4, 3});
  affine("vector", {7, 19});
  affine("rows", {19, 24, 9, 9});
  s.Case("dy").Input({3, 5}).Input({5}).Input({5}).Input({5}).Input({3, 4}).Fails("expected shape [3, 5]");
}

}  // namespace

SNUG_OPS(batch_norm_inference) {
  return {{.name = "batch_norm_inference",
           .doc = "y = (x - running_mean) / sqrt(running_var + epsilon) * weight + bias",
           .inputs = BatchNormInferenceInputs(),
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<3>,
           .kernels = BatchNormKernels<Forward>(),
           .samples = Samples},
          {.name = "batch_norm_inference_grad",
           .doc = "dx, dweight, dbias of batch_norm_inference",
           .inputs = {{"x"},
                      {"weight", PortType::kFloat32, true},
                      {"running_mean", PortType::kFloat32},
                      {"running_var", PortType::kFloat32},
                      {"dy"}},
           .outputs = BatchNormGradOutputs(),
           .infer = InferBatchNormGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<5>,
           .kernels = BatchNormKernels<Backward>(),
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::batch_norm_inference
