// mean_squared_error: the mean of (x - target)^2 over all elements, and its gradients.
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/loss/losses_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::mean_squared_error {
namespace {

constexpr int64_t kChunk = 1 << 15;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  c.SetOutput(0, Float32PortType(c.input(0).dtype), Shape());
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, Shape()));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {  // the loss is symmetric: the target's gradient swaps the inputs
  for (int i = 0; i < 2; ++i) {
    if (g.wants(i)) {
      g.SetInputGrad(i, g.Op("mean_squared_error_grad", {g.input(i), g.input(1 - i), g.output_grad(0)}));
    }
  }
  return g.status();
}

absl::Status Prepare(PrepareContext& c) {  // makes room for the chunks' sums
  const int64_t n = c.types().input(0).num_elements();
  c.SetWorkspaceBytes((n + kChunk - 1) / kChunk * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status LossCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const T* x = k.input<T>(0);
    const T* target = k.input<T>(1);
    double* partial = k.workspace<double>();
    const int64_t n = k.input_type(0).num_elements();
    ParallelFor(k.threads(), n, kChunk, [=](int64_t begin, int64_t end) {
      WithIsa([=]() SNUG_LAMBDA {
        partial[begin / kChunk] = LaneSum<A>(end - begin, [=](int64_t i) SNUG_LAMBDA {
          const A d = static_cast<A>(x[begin + i]) - static_cast<A>(target[begin + i]);
          return d * d;
        });
      });
    });
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += kChunk) total += partial[begin / kChunk];
    *k.output<Float32Port<T>>(0) = static_cast<Float32Port<T>>(total / static_cast<double>(n));
    return absl::OkStatus();
  });
}

absl::Status GradCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const T* x = k.input<T>(0);
    const T* target = k.input<T>(1);
    T* dx = k.output<T>(0);
    const int64_t n = k.input_type(0).num_elements();
    const A scale = static_cast<A>(2 * static_cast<double>(*k.input<Float32Port<T>>(2)) / static_cast<double>(n));
    ParallelFor(k.threads(), n, kChunk, [=](int64_t begin, int64_t end) {
      WithIsa([=]() SNUG_LAMBDA {
        SNUG_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          dx[i] = static_cast<T>((static_cast<A>(x[i]) - static_cast<A>(target[i])) * scale);
        }
      });
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Input({5, 7});
  s.Case("image").Input({2, 3, 5, 7}).Input({2, 3, 5, 7});
  s.Case("chunks").Input({40001}).NoGradient().Input({40001}).NoGradient();
  s.Case("known").Input({2}).Values({1, 2}).Input({2}).Values({3, 3}).Expect(0, {2.5});
  s.Case("shape").Input({5, 7}).Input({5, 1}).Fails("input 1 \"target\" [5, 1]: expected shape [5, 7]");
}

void GradSamples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Input({5, 7}).Input({});
  s.Case("dloss").Input({5}).Input({5}).Input({1}).Fails("input 2 \"dloss\" [1]: expected shape []");
}

}  // namespace

SNUG_OPS(mean_squared_error) {
  return {{.name = "mean_squared_error",
           .doc = "loss = mean of (x - target)^2",
           .inputs = {{"x"}, {"target"}},
           .outputs = {{"loss", PortType::kFloat32}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = FlopsPerElement<3>,
           .kernels = {{.name = "plain", .prepare = Prepare, .run = LossCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareSquaredErrorCuda),
                        .run = SNUG_IF_CUDA(SquaredErrorCuda)}},
           .samples = Samples},
          {.name = "mean_squared_error_grad",
           .doc = "dx = 2 (x - target) dloss / n",
           .inputs = {{"x"}, {"target"}, {"dloss", PortType::kFloat32}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}, {Alias::Kind::kMayShare, 0, 1}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = FlopsPerElement<3>,
           .kernels = {Plain(GradCpu), OwnOnCuda(SNUG_IF_CUDA(SquaredErrorGradCuda))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::mean_squared_error
