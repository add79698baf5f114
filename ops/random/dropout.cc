// dropout: each element becomes zero with probability `rate`, otherwise x / (1 - rate). The gradient draws the same
// numbers again, so nothing is kept. Outside training it is the identity, and there is no node.
#include <algorithm>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/kit/random_state.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/random/drop.h"
#include "ops/random/drop_cuda.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::dropout {
namespace {

using proto::ParseOptions;

constexpr int64_t kChunk = 1 << 14;
constexpr int64_t kBlock = 1 << 10;  // so many random words are drawn at a time and stay in the first-level cache
static_assert(kChunk % kBlock == 0 && kBlock % (4 * kCountersAtOnce) == 0);

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckDropRate(c.options<proto::Dropout>().rate()));
  SNUG_RETURN_IF_ERROR(CheckRandomState(c, 1));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) { return DropLayer(c, "dropout", c.options<proto::Dropout>().rate()); }

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("dropout_grad", {g.output_grad(0), g.input(1)}, g.options_handle()));
  return g.status();
}

// The numbers of an element belong to its logical position, so the layout has to be plain (an op's default).
absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const double rate = k.options<proto::Dropout>().rate();
    const auto dropped = static_cast<int32_t>(std::ceil(rate * kUniformRange));
    const A scale = static_cast<A>(rate < 1 ? 1 / (1 - rate) : 0);
    const RandomStream random(k, 1);
    const T* x = k.input<T>(0);
    T* y = k.output<T>(0);
    ParallelFor(k.threads(), k.output_type(0).num_elements(), kChunk, [=](int64_t begin, int64_t end) {
      uint32_t words[kBlock];
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t n = std::min(kBlock, end - i);
        const int64_t counters = (n + 4 * kCountersAtOnce - 1) / (4 * kCountersAtOnce) * kCountersAtOnce;
        DrawWords(random, static_cast<uint64_t>(i / 4), counters, words);
        WithIsa([=, &words]() SNUG_LAMBDA {
          SNUG_INDEPENDENT
          for (int64_t j = i; j < i + n; ++j) {
            const A value = static_cast<A>(x[j]) * scale;
            y[j] = static_cast<T>(ToUniformInt(words[j - i]) < dropped ? A(0) : value);
          }
        });
      }
    });
    return absl::OkStatus();
  });
}

#if SNUG_HAS_CUDA
absl::Status KernelCuda(const KernelContext& k) { return DropElementsCuda(k, k.options<proto::Dropout>().rate()); }
#endif

void Samples(SampleBuilder& s) {
  s.Case("default").Input({5, 7}).Int({2}, 0, 1000, DType::kInt64);
  s.Case("long").Input({3, 1031}).NoGradient().Int({2}, 0, 1000, DType::kInt64);
  s.Case("whole_packs").Input({9, 64}).NoGradient().Int({2}, 0, 1000, DType::kInt64);
  s.Case("rate_0")
      .With(ParseOptions<proto::Dropout>("rate: 0"))
      .Input({3})
      .Values({1, -2, 3})
      .Int({2}, 0, 9, DType::kInt64)
      .Expect(0, {1, -2, 3});
  s.Case("rate_1")
      .With(ParseOptions<proto::Dropout>("rate: 1"))
      .Input({3})
      .Values({1, -2, 3})
      .Int({2}, 0, 9, DType::kInt64)
      .Expect(0, {0, 0, 0});
  s.Case("bad_rate")
      .With(ParseOptions<proto::Dropout>("rate: 1.5"))
      .Input({3})
      .Int({2}, 0, 9, DType::kInt64)
      .Fails("option \"rate\": expected between 0 and 1, found 1.5");
  s.Case("not_a_state").Input({3}).Int({2}, 0, 9, DType::kInt32).Fails("expected int64[2], found int32[2]");
}

void GradSamples(SampleBuilder& s) { s.Case("default").Input({5, 7}).Int({2}, 0, 1000, DType::kInt64); }

}  // namespace

SNUG_OPS(dropout) {
  return {{.name = "dropout",
           .doc = "y = x / (1 - rate), or 0 with probability `rate`",
           .inputs = {{"x"}, {"state", PortType::kInteger}},
           .outputs = {{"y"}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.random = true},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(KernelCuda))},
           .samples = Samples},
          {.name = "dropout_grad",
           .doc = "dx = dy / (1 - rate) where x was kept, else 0",
           .inputs = {{"dy"}, {"state", PortType::kInteger}},
           .outputs = {{"dx"}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.random = true},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(KernelCuda))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::dropout
