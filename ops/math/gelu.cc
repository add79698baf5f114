// gelu: y = x Phi(x), Phi the normal distribution's (Hendrycks and Gimpel 2016), exactly or by the usual approximation
// with tanh. Its gradient reads x.
#include "ops/lib/elementwise.h"
#include "ops/lib/vec_math.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::ops {
namespace {

using proto::ParseOptions;

constexpr double kRootHalf = 0.70710678118654752440;        // 1 / sqrt(2)
constexpr double kRootTwoOverPi = 0.79788456080286535588;   // sqrt(2 / pi)
constexpr double kRootHalfOverPi = 0.39894228040143267794;  // 1 / sqrt(2 pi)
constexpr double kCubic = 0.044715;

struct Exact {
  template <class A>
  A operator()(A x) const {
    return A(0.5) * x * (A(1) + Erf(x * A(kRootHalf)));
  }
};

struct ExactGrad {
  template <class A>
  A operator()(A x, A dy) const {
    const A distribution = A(0.5) * (A(1) + Erf(x * A(kRootHalf)));
    const A density = Exp(A(-0.5) * x * x) * A(kRootHalfOverPi);
    return dy * (distribution + x * density);
  }
};

struct Approximate {
  template <class A>
  A operator()(A x) const {
    const A t = Tanh(A(kRootTwoOverPi) * (x + A(kCubic) * x * x * x));
    return A(0.5) * x * (A(1) + t);
  }
};

struct ApproximateGrad {
  template <class A>
  A operator()(A x, A dy) const {
    const A t = Tanh(A(kRootTwoOverPi) * (x + A(kCubic) * x * x * x));
    const A slope = A(kRootTwoOverPi) * (A(1) + A(3 * kCubic) * x * x);
    return dy * A(0.5) * ((A(1) + t) + x * (A(1) - t * t) * slope);
  }
};

absl::Status Kernel(const KernelContext& k) {
  return k.options<proto::Gelu>().tanh() ? ElementwiseKernel<Approximate>(k) : ElementwiseKernel<Exact>(k);
}

absl::Status GradKernel(const KernelContext& k) {
  return k.options<proto::Gelu>().tanh() ? ElementwiseKernel<ApproximateGrad>(k) : ElementwiseKernel<ExactGrad>(k);
}

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "gelu_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("exact").Input({5, 7}).Range(-4, 4);
  s.Case("tanh").With(ParseOptions<proto::Gelu>("tanh: true")).Input({5, 7}).Range(-4, 4);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({3}).Values({-1000, 0, 1000}).NoGradient().Expect(0, {0, 0, 1000});
  s.Case("known_tanh")
      .With(ParseOptions<proto::Gelu>("tanh: true"))
      .Input({3})
      .Values({-1000, 0, 1000})
      .NoGradient()
      .Expect(0, {0, 0, 1000});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({-100, 0, 100}).Input({3}).Values({1, 2, 3}).Expect(0, {0, 1, 3});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(gelu) {
  return {Elementwise<Exact>({.name = "gelu",
                              .doc = "y = x Phi(x) = x (1 + erf(x / sqrt(2))) / 2, or its approximation with tanh",
                              .inputs = {{"x"}},
                              .outputs = {{"y"}},
                              .gradient = Gradient,
                              .cpu = Kernel,
                              .samples = Samples}),
          Elementwise<ExactGrad>({.name = "gelu_grad",
                                  .doc = "dx = dy (Phi(x) + x Phi'(x))",
                                  .inputs = {{"x"}, {"dy"}},
                                  .outputs = {{"dx"}},
                                  .cpu = GradKernel,
                                  .samples = GradSamples})};
}

}  // namespace snug::ops
