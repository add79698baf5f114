// gelu: y = x Phi(x), Phi the normal distribution's (Hendrycks and Gimpel 2016), exactly or by the usual approximation
// with tanh. Its gradient reads x.
#include <string>

#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::gelu {
namespace {

using proto::ParseOptions;

absl::Status Kernel(const KernelContext& k) {
  return k.options<proto::Gelu>().tanh() ? ElementwiseKernel<functions::GeluByTanh>(k)
                                         : ElementwiseKernel<functions::Gelu>(k);
}

absl::Status GradKernel(const KernelContext& k) {
  return k.options<proto::Gelu>().tanh() ? ElementwiseKernel<functions::GeluByTanhGrad>(k)
                                         : ElementwiseKernel<functions::GeluGrad>(k);
}

#if SNUG_HAS_CUDA
absl::Status KernelCuda(const KernelContext& k) {
  return k.options<proto::Gelu>().tanh() ? ElementwiseCuda<functions::GeluByTanh>(k)
                                         : ElementwiseCuda<functions::Gelu>(k);
}

absl::Status GradKernelCuda(const KernelContext& k) {
  return k.options<proto::Gelu>().tanh() ? ElementwiseCuda<functions::GeluByTanhGrad>(k)
                                         : ElementwiseCuda<functions::GeluGrad>(k);
}
#endif

std::string Expression(const NodeTypes& types, absl::string_view x) {
  return types.options.Get<proto::Gelu>().tanh() ? FunctionExpression<functions::GeluByTanh>(types, x)
                                                 : FunctionExpression<functions::Gelu>(types, x);
}

std::string GradExpression(const NodeTypes& types, absl::string_view x_and_dy) {
  return types.options.Get<proto::Gelu>().tanh() ? FunctionExpression<functions::GeluByTanhGrad>(types, x_and_dy)
                                                 : FunctionExpression<functions::GeluGrad>(types, x_and_dy);
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
  return {Elementwise<functions::Gelu>(
              {.name = "gelu",
               .doc = "y = x Phi(x) = x (1 + erf(x / sqrt(2))) / 2, or its approximation with tanh",
               .inputs = {{"x"}},
               .outputs = {{"y"}},
               .gradient = Gradient,
               .elementwise = {Expression},
               .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(KernelCuda))},
               .samples = Samples}),
          Elementwise<functions::GeluGrad>({.name = "gelu_grad",
                                            .doc = "dx = dy (Phi(x) + x Phi'(x))",
                                            .inputs = {{"x"}, {"dy"}},
                                            .outputs = {{"dx"}},
                                            .elementwise = {GradExpression},
                                            .kernels = {Plain(GradKernel), OwnOnCuda(SNUG_IF_CUDA(GradKernelCuda))},
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::gelu
