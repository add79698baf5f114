// prelu: y = x where x > 0, else slope x, with a learned slope for all channels or one for each. The node takes the
// slopes as they broadcast: those of channels are seen as [channels, 1, ...].
#include <absl/strings/str_cat.h>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kit/elementwise.h"
#include "ops/layer_context.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::prelu {
namespace {

constexpr double kInitialSlope = 0.25;

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  const Shape x = c.type(c.input(0)).shape;
  const int64_t channels = x.rank() > 1 ? x[1] : 1;
  const int64_t count = c.options<proto::Prelu>().num_parameters();
  if (count != 1 && count != channels) {
    return OptionError("num_parameters", absl::StrCat("expected 1 or ", channels, " (the channels), found ", count));
  }
  ValueId slope = c.Parameter(
      {.name = "weight", .shape = Shape({count}), .init = ParameterSpec::Init::kConstant, .value = kInitialSlope});
  if (count > 1 && x.rank() > 2) {
    proto::ShapeOf along;
    along.add_dim(count);
    for (int axis = 2; axis < x.rank(); ++axis) along.add_dim(1);
    slope = c.Op("reshape_to", {slope}, proto::MakeOptions(along), "slope");
  }
  c.SetOutput(0, c.Op("prelu", {c.input(0), slope}));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  if (g.wants(0)) g.SetInputGrad(0, g.Op("prelu_grad", {g.input(0), g.input(1), g.output_grad(0)}));
  if (g.wants(1)) {
    const ValueId grad = g.Op("prelu_slope_grad", {g.input(0), g.output_grad(0)});
    g.SetInputGrad(1, SumToShape(g, grad, g.input_type(1).shape));
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("one_slope").Input({5, 7}).AwayFrom({0}).Input({1}).Range(0.1, 0.5);
  s.Case("per_channel").Input({2, 3, 4, 5}).AwayFrom({0}).Input({3, 1, 1}).Range(-0.5, 0.5);
  s.Case("matrix").Input({5, 7}).AwayFrom({0}).Input({7}).Range(0.1, 0.5);
  s.Case("known").Input({3}).Values({-2, 0, 2}).NoGradient().Input({1}).Values({0.25}).Expect(0, {-0.5, 0, 2});
  s.Case("shape_mismatch").Input({4, 3}).Input({2}).Fails("do not broadcast");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .Input({3})
      .Values({-2, 0, 2})
      .Input({1})
      .Values({0.25})
      .Input({3})
      .Values({4, 4, 4})
      .Expect(0, {1, 1, 4});
  s.Case("per_channel").Input({2, 3, 4, 5}).Input({3, 1, 1}).Input({2, 3, 4, 5});
  s.Case("shape_mismatch").Input({4}).Input({3}).Input({4}).Fails("do not broadcast");
}

void SlopeGradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({-2, 0, 2}).Input({3}).Values({3, 3, 3}).Expect(0, {-6, 0, 0});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(prelu) {
  return {Broadcasting<functions::Prelu>({.name = "prelu",
                                          .doc = "y = x where x > 0, else slope x; the slope is learned",
                                          .inputs = {{"x"}, {"slope"}},
                                          .outputs = {{"y"}},
                                          .layer = Layer,
                                          .gradient = Gradient,
                                          .samples = Samples}),
          Broadcasting<functions::PreluGrad>({.name = "prelu_grad",
                                              .doc = "dx = dy where x > 0, else slope dy",
                                              .inputs = {{"x"}, {"slope"}, {"dy"}},
                                              .outputs = {{"dx"}},
                                              .samples = GradSamples}),
          Elementwise<functions::PreluSlopeGrad>({.name = "prelu_slope_grad",
                                                  .doc = "dslope = 0 where x > 0, else x dy, before it is summed",
                                                  .inputs = {{"x"}, {"dy"}},
                                                  .outputs = {{"dslope"}},
                                                  .samples = SlopeGradSamples})};
}

}  // namespace snug::core::ops::prelu
