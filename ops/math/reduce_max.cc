// reduce_max: y = the largest of x along axes; NaN wins. The gradient is spread evenly over all elements that are
// largest, as in torch.amax.
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kernels/reduce/options.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kernels/reduce/reduce_op.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::reduce_max {
namespace {

using proto::ParseOptions;

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("reduce_max_grad", {g.input(0), g.output(0), g.output_grad(0)}, g.options_handle()));
  return g.status();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const ValueType y, ReducedType(c.input(0), c.options<proto::Reduce>()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, y.shape));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, y.shape));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

constexpr int64_t kChunk = 1 << 15;

// Takes one run of x: one element of each of the outputs side by side, or elements of output 0 only.
template <class T>
SNUG_INLINE void CountLargest(bool side_by_side, int64_t n, const T* x, const Accumulator<T>* largest,
                              Accumulator<T>* count) {
  using A = Accumulator<T>;
  if (side_by_side) {
    for (int64_t j = 0; j < n; ++j) count[j] += static_cast<A>(x[j]) == largest[j] ? A(1) : A(0);
    return;
  }
  int64_t equal = 0;
  for (int64_t j = 0; j < n; ++j) equal += static_cast<A>(x[j]) == largest[0] ? 1 : 0;
  count[0] += static_cast<A>(equal);
}

template <class T>
SNUG_INLINE void ShareOut(bool side_by_side, int64_t n, const T* x, const Accumulator<T>* largest,
                          const Accumulator<T>* share, T* dx) {
  using A = Accumulator<T>;
  if (side_by_side) {
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) dx[j] = static_cast<T>(static_cast<A>(x[j]) == largest[j] ? share[j] : A(0));
    return;
  }
  const A value = largest[0];
  const A own = share[0];
  SNUG_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) dx[j] = static_cast<T>(static_cast<A>(x[j]) == value ? own : A(0));
}

// Calls body(offset, n) for every run of n elements that go into `width` outputs side by side, or into one.
template <class Body>
SNUG_INLINE void ForEachRun(const ReducePlan& plan, int64_t width, const Body& body) {
  const int64_t reduced = plan.reduced_x.count();
  Walk walk(plan.reduced_x, 0);
  for (int64_t done = 0; done < reduced;) {
    const int64_t steps = plan.inner_kept ? 1 : walk.left();
    body(walk.offset(), plan.inner_kept ? width : steps);
    walk.Advance(steps);
    done += steps;
  }
}

// Does a strip of outputs at a time in two sweeps over its part of x: the first counts the largest elements, the second
// writes the gradient.
template <class T>
void MaxGrad(int threads, const ReducePlan& plan, const T* x, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  constexpr int64_t kStrip = 256;
  const int64_t outputs = plan.kept_x.count();
  if (outputs == 0) return;
  const int64_t row = plan.inner_kept ? plan.kept_x.inner_dim() : 1;
  const int64_t strips = (row + kStrip - 1) / kStrip;
  const int64_t chunk =
      std::max<int64_t>(1, kChunk / std::max<int64_t>(plan.reduced_x.count() * std::min(row, kStrip), 1));
  ParallelFor(threads, outputs / row * strips, chunk, [=, &plan](int64_t begin, int64_t end) {
    A largest[kStrip];
    A share[kStrip];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit / strips * row + unit % strips * kStrip;
      const int64_t width = std::min(kStrip, row - unit % strips * kStrip);
      const int64_t base = Walk(plan.kept_x, first).offset();
      Walk output(plan.kept_y, first);
      for (int64_t j = 0; j < width; ++j, output.Advance(1)) {
        largest[j] = static_cast<A>(y[output.offset()]);
        share[j] = A(0);
      }
      ForEachRun(plan, width, [&](int64_t offset, int64_t run) {
        WithIsa([&]() SNUG_LAMBDA { CountLargest(plan.inner_kept, run, x + base + offset, largest, share); });
      });
      Walk grad(plan.kept_y, first);
      for (int64_t j = 0; j < width; ++j, grad.Advance(1)) share[j] = static_cast<A>(dy[grad.offset()]) / share[j];
      ForEachRun(plan, width, [&](int64_t offset, int64_t run) {
        WithIsa([&]() SNUG_LAMBDA {
          ShareOut(plan.inner_kept, run, x + base + offset, largest, share, dx + base + offset);
        });
      });
    }
  });
}

absl::Status GradKernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const ReducePlan plan = PlanReduce(k.input_type(0), k.input_type(1), k.options<proto::Reduce>());
    MaxGrad(k.threads(), plan, k.input<T>(0), k.input<T>(1), k.input<T>(2), k.output<T>(0));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  AddReduceSamples(s);
  s.Case("known")
      .With(ParseOptions<proto::Reduce>("axis: 1"))
      .Input({2, 2})
      .Values({1, 2, 4, 3})
      .NoGradient()
      .Expect(0, {2, 4});
}

void GradSamples(SampleBuilder& s) {
  s.Case("ties")
      .With(ParseOptions<proto::Reduce>("axis: 1"))
      .Input({2, 4})
      .Values({1, 2, 2, 0, 3, 3, 3, 3})
      .Input({2})
      .Values({2, 3})
      .Input({2})
      .Values({1, 1})
      .Expect(0, {0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25});
  s.Case("columns")
      .With(ParseOptions<proto::Reduce>("axis: 0"))
      .Input({2, 3})
      .Values({1, 2, 3, 3, 2, 1})
      .Input({3})
      .Values({3, 2, 3})
      .Input({3})
      .Values({1, 1, 2})
      .Expect(0, {0, 0.5, 2, 1, 0.5, 0});
  s.Case("shape_mismatch").Input({4, 3}).Input({3}).Input({}).Fails("input 1 \"y\" [3]: expected shape []");
}

}  // namespace

SNUG_OPS(reduce_max) {
  return {ReduceOp<MaxOp>("reduce_max", "y = max of x along `axis`", Gradient, Samples),
          {.name = "reduce_max_grad",
           .doc = "dx = dy / n at the n elements where x = y, else 0",
           .inputs = {{"x"}, {"y"}, {"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = FlopsPerElement<1>,
           .kernels = {Plain(GradKernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return ReduceMaxGradCuda(
                             k, PlanReduce(k.input_type(0), k.input_type(1), k.options<proto::Reduce>()));
                       }))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::reduce_max
