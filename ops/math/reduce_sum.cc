// reduce_sum: y = the sum of x along axes. Its gradient keeps nothing.
#include "ops/kernel_context.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/reduce_axes.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::ops {
namespace {

using proto::ParseOptions;

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, RepeatToInput(g, g.output_grad(0)));
  return g.status();
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const ReducePlan plan = PlanReduce(k.input_type(0), k.output_type(0), k.options<proto::Reduce>());
    Reduce<SumOp>(k.threads(), plan, k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("all").Input({5, 7});
  s.Case("all_kept").With(ParseOptions<proto::Reduce>("keep_dims: true")).Input({2, 3, 4, 5});
  s.Case("last").With(ParseOptions<proto::Reduce>("axis: -1")).Input({5, 70});
  s.Case("first").With(ParseOptions<proto::Reduce>("axis: 0")).Input({70, 19});
  s.Case("middle").With(ParseOptions<proto::Reduce>("axis: 1")).Input({3, 4, 5});
  s.Case("spatial").With(ParseOptions<proto::Reduce>("axis: [2, 3] keep_dims: true")).Input({2, 3, 4, 5});
  s.Case("channels").With(ParseOptions<proto::Reduce>("axis: [0, 2, 3]")).Input({2, 3, 4, 5});
  s.Case("every_other").With(ParseOptions<proto::Reduce>("axis: [-3, -1]")).Input({3, 2, 5, 7});
  s.Case("one_channel").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 1, 4, 5});
  s.Case("in_parts").Input({300, 250}).NoGradient();
  s.Case("known").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 2}).Values({1, 2, 3, 4}).Expect(0, {3, 7});
  s.Case("bad_axis")
      .With(ParseOptions<proto::Reduce>("axis: 2"))
      .Input({5, 7})
      .Fails("axis 2: expected between -2 and 1");
  s.Case("twice").With(ParseOptions<proto::Reduce>("axis: [1, -1]")).Input({5, 7}).Fails("axis -1 is named twice");
}

}  // namespace

SNUG_OPS(reduce_sum) {
  return {{.name = "reduce_sum",
           .doc = "y = sum of x along `axis`",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = InferReduce,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfReduce,
           .cpu = Kernel,
           .samples = Samples}};
}

}  // namespace snug::ops
