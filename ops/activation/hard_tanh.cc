// hard_tanh: y = x, but at least `min` and at most `max`, as clip; but nothing flows back where y is one of them. Its
// gradient reads y.
#include <absl/strings/str_cat.h>

#include "engine/base/bfloat16.h"
#include "ops/grad_context.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::hard_tanh {
namespace {

using proto::ParseOptions;

functions::Range RangeOf(const Options& options) {
  return {.min = options.Get<proto::HardTanh>().min(), .max = options.Get<proto::HardTanh>().max()};
}

functions::Clip ClipOf(const Options& options) { return {RangeOf(options)}; }
functions::HardTanhGrad GradOf(const Options& options) { return {RangeOf(options)}; }

absl::Status Infer(InferContext& c) {
  const proto::HardTanh& options = c.options<proto::HardTanh>();
  if (!(options.min() < options.max())) {
    return c.OptionError("max", absl::StrCat("expected more than `min`, ", options.min(), ", found ", options.max()));
  }
  return core::internal::InferSameShape<1>(c);
}

// What y is in bfloat16 was rounded, and so is what it is compared with.
absl::Status Gradient(GradContext& g) {
  proto::HardTanh options = g.options<proto::HardTanh>();
  if (g.output_type(0).dtype == DType::kBFloat16) {
    options.set_min(BFloat16(options.min()));
    options.set_max(BFloat16(options.max()));
  }
  g.SetInputGrad(0, g.Op("hard_tanh_grad", {g.output(0), g.output_grad(0)}, proto::MakeOptions(options)));
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("default").Input({5, 7}).Range(-2, 2).AwayFrom({-1, 1});
  s.Case("image").With(ParseOptions<proto::HardTanh>("max: 0.5")).Input({2, 3, 4, 5}).AwayFrom({0.5});
  s.Case("bounds_between_numbers_of_bfloat16")
      .With(ParseOptions<proto::HardTanh>("min: -0.7 max: 0.7"))
      .Input({5, 7})
      .Range(-2, 2)
      .AwayFrom({-0.7, 0.7});
  s.Case("known")
      .With(ParseOptions<proto::HardTanh>("min: -1 max: 2"))
      .Input({4})
      .Values({-3, -1, 1.5, 3})
      .NoGradient()
      .Expect(0, {-1, -1, 1.5, 2});
  s.Case("crossed")
      .With(ParseOptions<proto::HardTanh>("min: 1"))
      .Input({4})
      .Fails("option \"max\": expected more than `min`, 1, found 1");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .With(ParseOptions<proto::HardTanh>("min: -1 max: 2"))
      .Input({4})
      .Values({-1, -0.5, 1.5, 2})
      .Input({4})
      .Values({1, 2, 3, 4})
      .Expect(0, {0, 2, 3, 0});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(hard_tanh) {
  return {Elementwise<functions::Clip, ClipOf>({.name = "hard_tanh",
                                                .doc = "y = min(max(x, `min`), `max`)",
                                                .inputs = {{"x"}},
                                                .outputs = {{"y"}},
                                                .infer = Infer,
                                                .gradient = Gradient,
                                                .samples = Samples}),
          Elementwise<functions::HardTanhGrad, GradOf>({.name = "hard_tanh_grad",
                                                        .doc = "dx = dy where min < y < max, else 0",
                                                        .inputs = {{"y"}, {"dy"}},
                                                        .outputs = {{"dx"}},
                                                        .samples = GradSamples})};
}

}  // namespace snug::core::ops::hard_tanh
