// nll_loss: the mean over rows of -log_probability[label], and its gradient. log_softmax and nll_loss together are
// softmax_cross_entropy in two steps.
#include <absl/strings/str_cat.h>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/loss/labels.h"
#include "ops/loss/losses_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::nll_loss {
namespace {

using Loss = proto::NegativeLogLikelihood;
using Grad = proto::NegativeLogLikelihoodGrad;
using proto::ParseOptions;

constexpr int64_t kChunk = 1 << 15;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const Shape& shape = c.shape(0);
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, shape.Without(shape.rank() - 1)));
  c.SetOutput(0, Float32PortType(c.input(0).dtype), Shape());
  return absl::OkStatus();
}

// The gradient does not need the log-probabilities, only how many a row has and their dtype.
absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<Grad>();
  if (options.classes() < 1) {
    return c.OptionError("classes", absl::StrCat("expected at least 1, found ", options.classes()));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, Shape()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 1, kMaxRank - 1));
  const bool wide = c.input(1).dtype == DType::kFloat64;
  Shape shape = c.shape(0);
  shape.Append(options.classes());
  c.SetOutput(0, wide ? DType::kFloat64 : options.bfloat16() ? DType::kBFloat16 : DType::kFloat32, shape);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const ValueType& x = g.input_type(0);
  Grad options;
  options.set_ignore_index(g.options<Loss>().ignore_index());
  options.set_classes(x.shape[x.shape.rank() - 1]);
  options.set_bfloat16(x.dtype == DType::kBFloat16);
  g.SetInputGrad(0, g.Op("nll_loss_grad", {g.input(1), g.output_grad(0)}, proto::MakeOptions(options)));
  return g.status();
}

absl::Status LossCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(1).dtype, [&](auto integer) -> absl::Status {
      using T = decltype(zero);
      const T* x = k.input<T>(0);
      const auto* labels = k.input<decltype(integer)>(1);
      const int64_t rows = k.input_type(1).num_elements();
      const int64_t classes = k.input_type(0).shape[k.input_type(0).shape.rank() - 1];
      const int64_t ignored = k.options<Loss>().ignore_index();
      int64_t counted = 0;
      SNUG_RETURN_IF_ERROR(CheckLabels(labels, rows, classes, ignored, &counted));
      double total = 0;
      for (int64_t r = 0; r < rows; ++r) {
        if (labels[r] != ignored) total -= static_cast<double>(x[r * classes + labels[r]]);
      }
      *k.output<Float32Port<T>>(0) = static_cast<Float32Port<T>>(total / static_cast<double>(counted));
      return absl::OkStatus();
    });
  });
}

absl::Status GradCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return DispatchInteger(k.input_type(0).dtype, [&](auto integer) -> absl::Status {
      using T = decltype(zero);
      const auto* labels = k.input<decltype(integer)>(0);
      T* dx = k.output<T>(0);
      const int64_t rows = k.input_type(0).num_elements();
      const int64_t classes = k.options<Grad>().classes();
      const int64_t ignored = k.options<Grad>().ignore_index();
      int64_t counted = 0;
      SNUG_RETURN_IF_ERROR(CheckLabels(labels, rows, classes, ignored, &counted));
      const T value = static_cast<T>(static_cast<Float32Port<T>>(-static_cast<double>(*k.input<Float32Port<T>>(1)) /
                                                                 static_cast<double>(counted)));
      ParallelFor(k.threads(), rows, std::max<int64_t>(1, kChunk / classes), [=](int64_t begin, int64_t end) {
        std::fill(dx + begin * classes, dx + end * classes, T());
        for (int64_t r = begin; r < end; ++r) {
          if (labels[r] != ignored) dx[r * classes + labels[r]] = value;
        }
      });
      return absl::OkStatus();
    });
  });
}

void Samples(SampleBuilder& s) {
  s.Case("labels").Input({4, 10}).Range(-3, 0).Int({4}, 0, 10);
  s.Case("sequence").Input({2, 5, 3}).Int({2, 5}, 0, 3, DType::kInt64);
  s.Case("ignored").With(ParseOptions<Loss>("ignore_index: 1")).Input({5, 7}).Int({5}, 0, 7).Values({3, 1, 0, 1, 6});
  s.Case("known").Input({2, 2}).Values({-1, -2, -3, -4}).NoGradient().Int({2}, 0, 2).Values({0, 1}).Expect(0, {2.5});
  s.Case("many_rows").Input({1100, 3}).NoGradient().Int({1100}, 0, 3);
  s.Case("label_shape").Input({4, 10}).Int({3}, 0, 10).Fails("expected shape [4]");
  s.Case("floating_labels").Input({4, 10}).Input({4}).As(DType::kFloat32).Fails("expected int32 or int64");
  s.Case("bad_label")
      .Input({2, 10})
      .Int({2}, 0, 10)
      .Values({-1, 3})
      .FailsAtRun("row 0: expected a class in [0, 10) or the ignored -100, found -1");
}

void GradSamples(SampleBuilder& s) {
  s.Case("labels").With(ParseOptions<Grad>("classes: 10 ignore_index: 2")).Int({3}, 0, 10).Values({4, 2, 9}).Input({});
  s.Case("many_rows").With(ParseOptions<Grad>("classes: 3 ignore_index: 2")).Int({4100}, 0, 3).Input({});
  s.Case("classes").Int({3}, 0, 10).Input({}).Fails("option \"classes\": expected at least 1, found 0");
  s.Case("bad_label").With(ParseOptions<Grad>("classes: 4")).Int({1}, 4, 5).Input({}).FailsAtRun("found 4");
}

}  // namespace

SNUG_OPS(nll_loss) {
  return {{.name = "nll_loss",
           .doc = "loss = mean over rows of -x[label]",
           .inputs = {{"x"}, {"labels", PortType::kInteger}},
           .outputs = {{"loss", PortType::kFloat32}},
           .infer = Infer,
           .gradient = Gradient,
           .index_bound = LabelBound,
           .cost = FlopsPerElement<1, 1>,
           .kernels = {Plain(LossCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareRowsCuda),
                        .run = SNUG_IF_CUDA(
                            [](const KernelContext& k) { return NllLossCuda(k, k.options<Loss>().ignore_index()); })}},
           .samples = Samples},
          {.name = "nll_loss_grad",
           .doc = "dx = -dloss / rows at the label, 0 elsewhere",
           .inputs = {{"labels", PortType::kInteger}, {"dloss", PortType::kFloat32}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .kernels = {Plain(GradCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareNllGradCuda),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          const Grad& options = k.options<Grad>();
                          return NllLossGradCuda(k, options.classes(), options.ignore_index());
                        })}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::nll_loss
