// reduce_mean: y = the mean of x along axes. Its gradient keeps nothing.
#include "ops/kernels/reduce/reduce_op.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::reduce_mean {
namespace {

using proto::ParseOptions;

absl::Status Gradient(GradContext& g) {  // dy is scaled before it is repeated, because it is smaller then
  proto::Scale scale;
  scale.set_factor(ShareInMean(g.input_type(0), g.output_type(0)));
  g.SetInputGrad(0, RepeatToInput(g, g.Op("scale", {g.output_grad(0)}, proto::MakeOptions(scale))));
  return g.status();
}

void Samples(SampleBuilder& s) {
  AddReduceSamples(s);
  s.Case("known").With(ParseOptions<proto::Reduce>("axis: 1")).Input({2, 2}).Values({1, 2, 3, 4}).Expect(0, {1.5, 3.5});
}

}  // namespace

SNUG_OPS(reduce_mean) {
  return {ReduceOp<SumOp, ShareInMean>("reduce_mean", "y = mean of x along `axis`", Gradient, Samples)};
}

}  // namespace snug::core::ops::reduce_mean
