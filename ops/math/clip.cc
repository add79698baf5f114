// clip: y = x, but at least `min` and at most `max`; a NaN stays. With one of the two it is the maximum or the minimum
// of x and a number. Its gradient reads x, and flows where y = x.
#include <absl/strings/str_cat.h>

#include <cmath>
#include <limits>

#include "engine/base/status.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::clip {
namespace {

using proto::ParseOptions;

functions::Range RangeOf(const Options& of_node) {
  const proto::Clip& options = of_node.Get<proto::Clip>();
  functions::Range range;
  if (options.has_min()) range.min = options.min();
  if (options.has_max()) range.max = options.max();
  return range;
}

functions::Clip ClipOf(const Options& options) { return {RangeOf(options)}; }
functions::ClipGrad ClipGradOf(const Options& options) { return {RangeOf(options)}; }

template <int kInputs>
absl::Status Infer(InferContext& c) {
  const proto::Clip& options = c.options<proto::Clip>();
  if (!options.has_min() && !options.has_max()) return c.OptionError("min", "expected `min`, `max` or both");
  if (options.has_min() && options.has_max() && !(options.min() <= options.max())) {
    return c.OptionError("max", absl::StrCat("expected at least `min`, ", options.min(), ", found ", options.max()));
  }
  return core::internal::InferSameShape<kInputs>(c);
}

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "clip_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("both").With(ParseOptions<proto::Clip>("min: -0.5 max: 0.25")).Input({5, 7}).AwayFrom({-0.5, 0.25});
  s.Case("min").With(ParseOptions<proto::Clip>("min: 0.25")).Input({2, 3, 4, 5}).AwayFrom({0.25});
  s.Case("max").With(ParseOptions<proto::Clip>("max: 0.25")).Input({5, 7}).AwayFrom({0.25});
  s.Case("known")
      .With(ParseOptions<proto::Clip>("min: -1 max: 2"))
      .Input({4})
      .Values({-3, -1, 1.5, 3})
      .NoGradient()
      .Expect(0, {-1, -1, 1.5, 2});
  s.Case("known_min")
      .With(ParseOptions<proto::Clip>("min: 0.5"))
      .Input({5})
      .Values({-3, 0.25, 0.5, 3, INFINITY})
      .NoGradient()
      .Expect(0, {0.5, 0.5, 0.5, 3, INFINITY});
  s.Case("none").Input({4}).Fails("option \"min\": expected `min`, `max` or both");
  s.Case("crossed")
      .With(ParseOptions<proto::Clip>("min: 1 max: 0"))
      .Input({4})
      .Fails("option \"max\": expected at least `min`, 1, found 0");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .With(ParseOptions<proto::Clip>("min: -1 max: 2"))
      .Input({4})
      .Values({-3, -1, 1.5, 3})
      .Input({4})
      .Values({1, 2, 3, 4})
      .Expect(0, {0, 2, 3, 0});
  s.Case("shape_mismatch").With(ParseOptions<proto::Clip>("min: 0")).Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(clip) {
  return {Elementwise<functions::Clip, ClipOf>({.name = "clip",
                                                .doc = "y = min(max(x, `min`), `max`); one of the two may be absent",
                                                .inputs = {{"x"}},
                                                .outputs = {{"y"}},
                                                .infer = Infer<1>,
                                                .gradient = Gradient,
                                                .samples = Samples}),
          Elementwise<functions::ClipGrad, ClipGradOf>({.name = "clip_grad",
                                                        .doc = "dx = dy where min <= x <= max, else 0",
                                                        .inputs = {{"x"}, {"dy"}},
                                                        .outputs = {{"dx"}},
                                                        .infer = Infer<2>,
                                                        .samples = GradSamples})};
}

}  // namespace snug::core::ops::clip
