// stochastic_depth: whole samples become zero with probability `rate`, the others x / (1 - rate) (Huang et al. 2016;
// the "row" mode of torchvision). The gradient draws the same numbers again. Outside training it is the identity.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/elementwise.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/random/drop.h"
#include "ops/random/drop_cuda.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::stochastic_depth {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckDropRate(c.options<proto::StochasticDepth>().rate()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 1, kMaxRank));
  SNUG_RETURN_IF_ERROR(CheckRandomState(c, 1));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  return DropLayer(c, "stochastic_depth", c.options<proto::StochasticDepth>().rate());
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("stochastic_depth_grad", {g.output_grad(0), g.input(1)}, g.options_handle()));
  return g.status();
}

template <class A>
struct Times {
  A factor;
  A operator()(A x) const { return x * factor; }
};

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const double rate = k.options<proto::StochasticDepth>().rate();
    const Times<A> scale = {static_cast<A>(rate < 1 ? 1 / (1 - rate) : 0)};
    const RandomStream random(k, 1);
    const int64_t samples = k.output_type(0).shape[0];
    const int64_t n = k.output_type(0).shape.Count(1, k.output_type(0).shape.rank());
    const T* x = k.input<T>(0);
    T* y = k.output<T>(0);
    const int64_t chunk = std::max<int64_t>(1, kElementwiseChunk / std::max<int64_t>(n, 1));
    ParallelFor(k.threads(), samples, chunk, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (ToUniform(random.Word(static_cast<uint64_t>(i))) < rate) {
          std::fill_n(y + i * n, n, T(0));
        } else {
          WithIsa([=](auto isa) SNUG_LAMBDA { MapBlock(isa, n, scale, y + i * n, x + i * n); });
        }
      }
    });
    return absl::OkStatus();
  });
}

#if SNUG_HAS_CUDA
absl::Status KernelCuda(const KernelContext& k) {
  return DropSamplesCuda(k, k.options<proto::StochasticDepth>().rate());
}
#endif

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({9, 7}).Int({2}, 0, 1000, DType::kInt64);
  s.Case("image").Input({6, 3, 4, 5}).Int({2}, 0, 1000, DType::kInt64);
  s.Case("rate_0")
      .With(ParseOptions<proto::StochasticDepth>("rate: 0"))
      .Input({3})
      .Values({1, -2, 3})
      .Int({2}, 0, 9, DType::kInt64)
      .Expect(0, {1, -2, 3});
  s.Case("rate_1")
      .With(ParseOptions<proto::StochasticDepth>("rate: 1"))
      .Input({3, 1})
      .Values({1, -2, 3})
      .Int({2}, 0, 9, DType::kInt64)
      .Expect(0, {0, 0, 0});
  s.Case("bad_rate")
      .With(ParseOptions<proto::StochasticDepth>("rate: -0.5"))
      .Input({3})
      .Int({2}, 0, 9, DType::kInt64)
      .Fails("option \"rate\": expected between 0 and 1, found -0.5");
  s.Case("no_batch").Input({}).Int({2}, 0, 9, DType::kInt64).Fails("(batch first), found 0");
  s.Case("not_a_state").Input({3}).Int({3}, 0, 9, DType::kInt64).Fails("expected int64[2], found int64[3]");
}

void GradSamples(SampleBuilder& s) { s.Case("matrix").Input({9, 7}).Int({2}, 0, 1000, DType::kInt64); }

}  // namespace

SNUG_OPS(stochastic_depth) {
  return {{.name = "stochastic_depth",
           .doc = "y = x / (1 - rate), or 0 for whole samples with probability `rate`",
           .inputs = {{"x"}, {"state", PortType::kInteger}},
           .outputs = {{"y"}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.random = true, .layout = LayoutRule::kAgnostic},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(KernelCuda))},
           .samples = Samples},
          {.name = "stochastic_depth_grad",
           .doc = "dx = dy / (1 - rate) for samples that were kept, else 0",
           .inputs = {{"dy"}, {"state", PortType::kInteger}},
           .outputs = {{"dx"}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.random = true, .layout = LayoutRule::kAgnostic},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(KernelCuda))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::stochastic_depth
