// where: y = a where the condition is not 0, else b. The condition may have any type: the layer casts it to that of the
// others, in which a NaN counts as yes. No gradient flows to it, and it is all that the backward pass keeps.
#include "engine/base/status.h"
#include "ops/kit/elementwise.h"
#include "ops/layer_context.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/data_type.h"

namespace snug::core::ops::where {
namespace {

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(3));
  ValueId condition = c.input(0);
  const DType of_a = c.type(c.input(1)).dtype;
  if (c.type(condition).dtype != of_a) {
    // In a bfloat16 network a parameter is read as bfloat16, whatever its own type.
    const bool as_network = !IsFloating(of_a) || c.floating() == DType::kBFloat16;
    condition = c.Op("cast", {condition}, proto::CastTo(as_network ? c.floating() : of_a), "condition");
  }
  c.SetOutput(0, c.Op("where", {condition, c.input(1), c.input(2)}));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  const auto gradient = [&g](int input, absl::string_view op) {
    if (!g.wants(input)) return;
    const ValueId grad = g.Op(op, {g.input(0), g.output_grad(0)});
    g.SetInputGrad(input, SumToShape(g, grad, g.input_type(input).shape));
  };
  gradient(1, "where_grad");
  gradient(2, "where_else_grad");
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).AwayFrom({0}).Input({5, 7}).Input({5, 7});
  s.Case("mask").Input({2, 1, 4, 5}).Values(std::vector<double>(40, 1)).NoGradient().Input({2, 3, 4, 5}).Input({});
  s.Case("zeros_and_ones").Input({6}).Values({0, 1, 1, 0, 0, 1}).NoGradient().Input({4, 6}).Input({4, 1});
  s.Case("large_condition").Input({3, 4, 5}).AwayFrom({0}).Input({1}).Input({5});
  s.Case("one").Input({}).Values({1}).NoGradient().Input({}).Input({});
  s.Case("known")
      .Input({6})
      .Values({0, 1, -2, -0.0, NAN, 0.5})
      .NoGradient()
      .Input({6})
      .Values({1, 2, 3, 4, 5, 6})
      .NoGradient()
      .Input({1})
      .Values({-1})
      .NoGradient()
      .Expect(0, {-1, 2, 3, -1, 5, 6});
  s.Case("not_chosen_does_not_count")
      .Input({2})
      .Values({0, 1})
      .NoGradient()
      .Input({2})
      .Values({NAN, 2})
      .NoGradient()
      .Input({2})
      .Values({3, INFINITY})
      .NoGradient()
      .Expect(0, {3, 2});
  s.Case("shape_mismatch").Input({4, 3}).Input({4, 3}).Input({2}).Fails("input 2 \"b\" [2]");
  s.Case("condition_mismatch").Input({4, 2}).Input({4, 3}).Input({3}).Fails("do not broadcast");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({0, -1, 2}).Input({2, 3}).Values({1, 2, 3, 4, 5, 6}).Expect(0, {0, 2, 3, 0, 5, 6});
  s.Case("image").Input({3, 1, 1}).Input({2, 3, 4, 5});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("do not broadcast");
}

void ElseGradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({0, -1, 2}).Input({2, 3}).Values({1, 2, 3, 4, 5, 6}).Expect(0, {1, 0, 0, 4, 0, 0});
  s.Case("image").Input({3, 1, 1}).Input({2, 3, 4, 5});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("do not broadcast");
}

}  // namespace

SNUG_OPS(where) {
  return {Broadcasting<functions::Where>({.name = "where",
                                          .doc = "y = a where the condition is not 0, else b",
                                          .inputs = {{"condition"}, {"a"}, {"b"}},
                                          .outputs = {{"y"}},
                                          .layer = Layer,
                                          .gradient = Gradient,
                                          .samples = Samples}),
          Broadcasting<functions::WhereGrad>({.name = "where_grad",
                                              .doc = "da = dy where the condition is not 0, else 0",
                                              .inputs = {{"condition"}, {"dy"}},
                                              .outputs = {{"da"}},
                                              .samples = GradSamples}),
          Broadcasting<functions::WhereElseGrad>({.name = "where_else_grad",
                                                  .doc = "db = 0 where the condition is not 0, else dy",
                                                  .inputs = {{"condition"}, {"dy"}},
                                                  .outputs = {{"db"}},
                                                  .samples = ElseGradSamples})};
}

}  // namespace snug::core::ops::where
