// huber_loss: the mean of a function of x - target that is a square near 0, and a line from `delta` on.
#include <absl/strings/str_cat.h>

#include "ops/kit/elementwise.h"
#include "ops/kit/mean_loss.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::huber_loss {
namespace {

using proto::ParseOptions;

functions::Huber HuberOf(const Options& options) { return {options.Get<proto::HuberLoss>().delta()}; }
functions::HuberGrad GradOf(const Options& options) { return {options.Get<proto::HuberLoss>().delta()}; }

template <int kInputs>
absl::Status Infer(InferContext& c) {
  const double delta = c.options<proto::HuberLoss>().delta();
  if (!(static_cast<float>(delta) > 0)) {
    return c.OptionError("delta", absl::StrCat("expected more than 0, as a float, found ", delta));
  }
  return core::internal::InferSameShape<kInputs>(c);
}

absl::Status Layer(LayerContext& c) { return MeanLossLayer(c, "huber"); }

absl::Status Gradient(GradContext& g) { return GradientOfEven(g, "huber_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Input({5, 7});
  s.Case("line")
      .With(ParseOptions<proto::HuberLoss>("delta: 0.25"))
      .Input({2, 3, 5, 7})
      .Range(0.5, 1)
      .Input({2, 3, 5, 7})
      .Range(-1, 0);
  s.Case("known")
      .With(ParseOptions<proto::HuberLoss>("delta: 2"))
      .Input({4})
      .Values({1, 2, 5, -4})
      .NoGradient()
      .Input({4})
      .Values({2, 2, 3, 0})
      .NoGradient()
      .Expect(0, {0.5, 0, 2, 6});
  s.Case("shape").Input({5, 7}).Input({5, 1}).Fails("input 1 \"target\" [5, 1]: expected shape [5, 7]");
  s.Case("delta")
      .With(ParseOptions<proto::HuberLoss>("delta: 0"))
      .Input({4})
      .Input({4})
      .Fails("option \"delta\": expected more than 0, as a float, found 0");
  s.Case("small_delta")
      .With(ParseOptions<proto::HuberLoss>("delta: 1e-60"))
      .Input({4})
      .Input({4})
      .Fails("option \"delta\": expected more than 0, as a float, found 1e-60");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .With(ParseOptions<proto::HuberLoss>("delta: 2"))
      .Input({4})
      .Values({1, 2, 5, -4})
      .Input({4})
      .Values({2, 2, 1, 0})
      .Input({4})
      .Values({3, 3, 3, 3})
      .Expect(0, {-3, 0, 6, -6});
  s.Case("shape").Input({4}).Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(huber_loss) {
  return {LossLayer("huber_loss", "loss = mean of d^2 / 2 where d = |x - target| < delta, else delta (d - delta / 2)",
                    Layer),
          Elementwise<functions::Huber, HuberOf>(
              {.name = "huber",
               .doc = "y = d^2 / 2 where d = |x - target| < delta, else delta (d - delta / 2)",
               .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}},
               .outputs = {{"y", PortType::kFloat32}},
               .infer = Infer<2>,
               .gradient = Gradient,
               .samples = Samples}),
          Elementwise<functions::HuberGrad, GradOf>(
              {.name = "huber_grad",
               .doc = "dx = dy (x - target), the difference at most delta either way",
               .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}, {"dy", PortType::kFloat32}},
               .outputs = {{"dx", PortType::kFloat32}},
               .infer = Infer<3>,
               .samples = GradSamples})};
}

}  // namespace snug::core::ops::huber_loss
