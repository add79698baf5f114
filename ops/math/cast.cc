// cast: the same numbers in another element type.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/kit/convert.h"
#include "ops/kit/cuda/together.h"
#include "ops/kit/elementwise.h"
#include "ops/kit/expression.h"
#include "ops/layer_context.h"
#include "ops/math/values_cuda.h"
#include "ops/sample_builder.h"
#include "proto/data_type.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::cast {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  const proto::DataType dtype = c.options<proto::Cast>().dtype();
  if (dtype == proto::FLOAT) {
    return c.OptionError("dtype", "expected a definite type (FLOAT32, BFLOAT16, ...), found FLOAT");
  }
  c.SetOutput(0, proto::ToDType(dtype, DType::kFloat32), c.shape(0), c.input(0).layout);
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  const DType dtype = proto::ToDType(c.options<proto::Cast>().dtype(), c.floating());
  const ValueId x = c.input(0);
  c.SetOutput(0, c.type(x).dtype == dtype ? x : c.Op("cast", {x}, proto::CastTo(dtype)));
  return c.status();
}

absl::Status Gradient(GradContext& g) {  // integers have no gradient
  if (!IsFloating(g.input_type(0).dtype) || !IsFloating(g.output_type(0).dtype)) return absl::OkStatus();
  g.SetInputGrad(0, g.Op("cast", {g.output_grad(0)}, proto::CastTo(g.input_type(0).dtype)));
  return g.status();
}

Cost CostOfCast(const NodeTypes&) { return {}; }

constexpr int64_t kChunk = 1 << 14;  // elements in a thread's piece of work

template <class To, class From>
void CastAll(const KernelContext& k) {
  const From* x = k.input<From>(0);
  To* y = k.output<To>(0);
  ParallelFor(k.threads(), k.output_type(0).num_elements(), kChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) y[i] = Convert<To>(static_cast<Accumulator<From>>(x[i]));
    });
  });
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchAny(k.input_type(0).dtype, [&](auto from) {
    return DispatchAny(k.output_type(0).dtype, [&](auto to) {
      CastAll<decltype(to), decltype(from)>(k);
      return absl::OkStatus();
    });
  });
}

std::string Expression(const NodeTypes& types, absl::string_view x) {
  return absl::StrCat("Convert<", CppName(types.output(0).dtype), ">(static_cast<Accumulator<",
                      CppName(types.input(0).dtype), ">>(", x, "))");
}

void Samples(SampleBuilder& s) {
  // Differences cannot check the gradient, because rounding to a narrower type makes steps.
  s.Case("to_float32").Input({5, 7}).NoGradient().With(ParseOptions<proto::Cast>("dtype: FLOAT32"));
  s.Case("to_bfloat16").Input({2, 3, 4, 5}).NoGradient().With(ParseOptions<proto::Cast>("dtype: BFLOAT16"));
  s.Case("whole_packs").Input({6, 8}).NoGradient().With(ParseOptions<proto::Cast>("dtype: FLOAT32"));
  s.Case("bytes").Bytes({6, 8}, 0, 256).With(ParseOptions<proto::Cast>("dtype: BFLOAT16"));
  s.Case("to_float64").Input({5, 7}).With(ParseOptions<proto::Cast>("dtype: FLOAT64"));
  s.Case("to_integers")
      .Input({6})
      .Values({-1.75, -0.5, 0, 0.5, 1.75, 1e30})
      .NoGradient()
      .With(ParseOptions<proto::Cast>("dtype: INT32"))
      .Expect(0, {-1, 0, 0, 0, 1, 2147483647});
  s.Case("from_integers")
      .Int({2}, -3, 4)
      .Values({-3, 3})
      .With(ParseOptions<proto::Cast>("dtype: FLOAT32"))
      .Expect(0, {-3, 3});
  s.Case("no_type").Input({4}).Fails("option \"dtype\"");
}

}  // namespace

SNUG_OPS(cast) {
  return {{.name = "cast",
           .doc = "y = x as `dtype`",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfCast,
           .elementwise = {Expression},
           .kernels = {Plain(Kernel),
                       {.device = kOnCuda,
                        .name = "own",
                        .run = SNUG_IF_CUDA(Alone<CastCuda>),
                        .together = SNUG_IF_CUDA(CastCuda)}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::cast
