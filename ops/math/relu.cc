// relu: y = max(x, 0), and its gradient, which reads y (x may be overwritten in place).
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/isa.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"

namespace snug::ops {
namespace {

constexpr int64_t kChunk = 1 << 15;

absl::Status Infer(InferContext& c) {
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  c.SetOutput(0, c.input(1));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {  // dx = dy where y > 0
  g.SetInputGrad(0, g.Op("relu_grad", {g.output(0), g.output_grad(0)}));
  return g.status();
}

// One code for the plain and the fast kernel: `simd` only says whether it is compiled for the machine's instruction
// set.
template <class T>
void Forward(const KernelContext& k, int threads) {
  const T* x = k.input<T>(0);
  T* y = k.output<T>(0);
  ParallelFor(threads, k.output_type(0).num_elements(), kChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] > T(0) ? x[i] : T(0);
    });
  });
}

template <class T>
void Backward(const KernelContext& k, int threads) {
  const T* y = k.input<T>(0);
  const T* dy = k.input<T>(1);
  T* dx = k.output<T>(0);
  ParallelFor(threads, k.output_type(0).num_elements(), kChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) dx[i] = y[i] > T(0) ? dy[i] : T(0);
    });
  });
}

absl::Status ReluCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    Forward<decltype(zero)>(k, k.threads());
    return absl::OkStatus();
  });
}

absl::Status ReluGradCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    Backward<decltype(zero)>(k, k.threads());
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).AwayFrom({0});
  s.Case("image").Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("known").Input({4}).Values({-1, 0, 0.5, 2}).NoGradient().Expect(0, {0, 0, 0.5, 2});
}

void GradSamples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).Input({5, 7});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(relu) {
  return {{.name = "relu",
           .doc = "y = max(x, 0)",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cpu = ReluCpu,
           .samples = Samples},
          {.name = "relu_grad",
           .doc = "dx = dy where y > 0, else 0",
           .inputs = {{"y"}, {"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 1}, {Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cpu = ReluGradCpu,
           .samples = GradSamples}};
}

}  // namespace snug::ops
