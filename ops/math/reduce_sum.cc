// reduce_sum: y = the sum of x along axes. Its gradient keeps nothing.
#include "ops/kernels/reduce/reduce_op.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::reduce_sum {
namespace {

using proto::ParseOptions;

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, RepeatToInput(g, g.output_grad(0)));
  return g.status();
}

void Samples(SampleBuilder& s) {
  AddReduceSamples(s);
  s.Case("known").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 2}).Values({1, 2, 3, 4}).Expect(0, {3, 7});
}

}  // namespace

SNUG_OPS(reduce_sum) { return {ReduceOp<SumOp>("reduce_sum", "y = sum of x along `axis`", Gradient, Samples)}; }

}  // namespace snug::core::ops::reduce_sum
