// softmax_cross_entropy: the mean over rows of -sum(target * log_softmax(logits)), where the target is the label's
// class (or given probabilities), smoothed. The forward pass keeps only the log of each row's sum of exponentials. The
// gradient computes the softmax from it again, and writes over the logits where nobody needs them any more.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/layer_context.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/losses_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::cross_entropy {

// CheckInputs looks at these numbers, so they may make no sense yet, and the logits may be a scalar.
Numbers NumbersOf(const proto::SoftmaxCrossEntropy& options, const ValueType& logits) {
  int64_t classes = logits.shape.rank() > 0 ? Stride(logits) : 0;
  if (options.has_classes()) classes = options.classes();
  return {.smoothing = options.label_smoothing(), .ignored = options.ignore_index(), .classes = classes};
}

}  // namespace snug::core::cross_entropy

namespace snug::core::ops::softmax_cross_entropy {
namespace {

using cross_entropy::Backward;
using cross_entropy::CheckInputs;
using cross_entropy::DispatchTarget;
using cross_entropy::Forward;
using cross_entropy::NumbersOf;
using cross_entropy::Rows;
using cross_entropy::RowsPerChunk;
using cross_entropy::Stride;
using proto::ParseOptions;
using Cross = proto::SoftmaxCrossEntropy;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckInputs(c, NumbersOf(c.options<Cross>(), c.input(0))));
  const ValueType& logits = c.input(0);
  const DType dtype = Float32PortType(logits.dtype);
  c.SetOutput(0, dtype, Shape());
  c.SetOutput(1, dtype, logits.shape.Without(logits.shape.rank() - 1));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckInputs(c, NumbersOf(c.options<Cross>(), c.input(0))));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, c.shape(0).Without(c.shape(0).rank() - 1)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(3, Shape()));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferTargetGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0).Without(c.shape(0).rank() - 1)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, Shape()));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {  // the layer has one output; the row sums stay inside
  c.SetOutput(0, c.Op("softmax_cross_entropy", c.inputs(), c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  if (g.wants(0)) {
    g.SetInputGrad(0, g.Op("softmax_cross_entropy_grad", {g.input(0), g.input(1), g.output(1), g.output_grad(0)},
                           g.options_handle()));
  }
  if (g.wants(1)) {
    g.SetInputGrad(
        1, g.Op("softmax_cross_entropy_target_grad", {g.input(0), g.output(1), g.output_grad(0)}, g.options_handle()));
  }
  return g.status();
}

absl::Status Prepare(PrepareContext& c) {  // makes room for the rows' losses
  c.SetWorkspaceBytes(Rows(c.types().input(0)) * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

int64_t ClassBound(const NodeTypes& types, int input) {
  return input == 1 ? NumbersOf(types.options.Get<Cross>(), types.input(0)).classes : 0;
}

cross_entropy::Numbers NumbersOfNode(const KernelContext& k) { return NumbersOf(k.options<Cross>(), k.input_type(0)); }

// For probabilities that are computed, not given: dtarget = ((1 - smoothing) * -log_softmax) * dloss / rows.
template <class T>
absl::Status TargetBackward(const KernelContext& k) {
  using A = Accumulator<T>;
  const T* logits = k.input<T>(0);
  const Float32Port<T>* lse = k.input<Float32Port<T>>(1);
  const int64_t rows = Rows(k.input_type(0));
  const int64_t classes = NumbersOfNode(k).classes;
  const int64_t stride = Stride(k.input_type(0));
  T* dtarget = k.output<T>(0);
  const A scale = static_cast<A>(static_cast<double>(*k.input<Float32Port<T>>(2)) *
                                 (1 - k.options<Cross>().label_smoothing()) / static_cast<double>(rows));
  ParallelFor(k.threads(), rows, RowsPerChunk(classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        const A row_lse = static_cast<A>(lse[r]);
        for (int64_t i = r * stride; i < r * stride + classes; ++i) {
          dtarget[i] = static_cast<T>((row_lse - static_cast<A>(logits[i])) * scale);
        }
        std::fill(dtarget + r * stride + classes, dtarget + (r + 1) * stride, static_cast<T>(A(0)));
      }
    });
  });
  return absl::OkStatus();
}

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return DispatchTarget<T>(k, [&](const auto* labels) {
      return Forward<T>(k, NumbersOfNode(k), labels, k.workspace<double>(), k.output<S>(0), k.output<S>(1));
    });
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return DispatchTarget<T>(k, [&](const auto* labels) {
      return Backward<T>(k, NumbersOfNode(k), labels, k.input<S>(2), static_cast<double>(*k.input<S>(3)),
                         k.output<T>(0));
    });
  });
}

absl::Status TargetBackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) { return TargetBackward<decltype(zero)>(k); });
}

void Samples(SampleBuilder& s) {
  s.Case("labels").Input({4, 10}).Int({4}, 0, 10);
  s.Case("wide").Input({3, 133}).Range(-4, 4).Int({3}, 0, 133, DType::kInt64);
  s.Case("one_class").Input({3, 1}).Int({3}, 0, 1);
  s.Case("sequence").Input({2, 5, 37}).Int({2, 5}, 0, 37);
  s.Case("smoothed").With(ParseOptions<Cross>("label_smoothing: 0.1")).Input({4, 21}).Int({4}, 0, 21);
  s.Case("ignored").Input({5, 7}).Int({5}, 0, 7).Values({3, -100, 0, -100, 6});
  s.Case("ignored_class")
      .With(ParseOptions<Cross>("ignore_index: 0 label_smoothing: 0.25"))
      .Input({5, 7})
      .Int({5}, 0, 7)
      .Values({3, 0, 0, 2, 6});
  s.Case("padded").With(ParseOptions<Cross>("classes: 21")).Input({4, 32}).Int({4}, 0, 21);
  s.Case("padded_wide")
      .With(ParseOptions<Cross>("classes: 133 label_smoothing: 0.2"))
      .Input({3, 192})
      .Int({3}, 0, 133)
      .Values({132, -100, 5});
  s.Case("padded_known")
      .With(ParseOptions<Cross>("classes: 2"))
      .Input({1, 3})
      .Values({0, 0, 1000})
      .NoGradient()
      .Int({1}, 0, 2)
      .Values({1})
      .Expect(0, {0.693147180559945309});
  s.Case("probabilities").Input({4, 19}).Input({4, 19}).Range(0, 1);
  s.Case("probabilities_padded").With(ParseOptions<Cross>("classes: 19")).Input({4, 24}).Input({4, 24}).Range(0, 1);
  // On CUDA a warp holds a row, a block holds it, and a block streams it, 16 bytes at a time.
  for (const int64_t classes : {72, 1600, 8704}) {
    const auto options = [] { return ParseOptions<Cross>("label_smoothing: 0.1"); };
    const auto name = [&](const char* kind) { return absl::StrCat(kind, "_", classes); };
    s.Case(name("classes")).Input({3, classes}).Range(-4, 4).NoGradient().Int({3}, 0, classes);
    s.Case(name("smoothed")).With(options()).Input({3, classes}).Range(-4, 4).NoGradient().Int({3}, 0, classes);
    s.Case(name("probabilities"))
        .Input({3, classes})
        .Range(-4, 4)
        .NoGradient()
        .Input({3, classes})
        .Range(0, 2 / static_cast<double>(classes))
        .NoGradient();
  }
  // On CUDA a block does all rows, or several do, and a kernel after them adds up.
  for (const int64_t rows : {64, 130}) {
    s.Case(absl::StrCat("rows_", rows)).Input({rows, 10}).NoGradient().Int({rows}, 0, 10);
    s.Case(absl::StrCat("rows_of_packs_", rows)).Input({rows, 40}).NoGradient().Int({rows}, 0, 40, DType::kInt64);
    s.Case(absl::StrCat("probabilities_rows_", rows))
        .Input({rows, 8})
        .NoGradient()
        .Input({rows, 8})
        .Range(0, 1)
        .NoGradient();
  }
  s.Case("probabilities_smoothed")
      .With(ParseOptions<Cross>("label_smoothing: 0.3"))
      .Input({2, 3, 35})
      .Input({2, 3, 35})
      .Range(0, 1);
  s.Case("known")
      .Input({2, 2})
      .Values({0, 0, 1000, 1000})
      .NoGradient()
      .Int({2}, 0, 2)
      .Values({0, 1})
      .Expect(0, {0.693147180559945309});
  s.Case("vector").Input({10}).Int({10}, 0, 1).Fails("expected 2 to 8 dimensions");
  s.Case("label_shape").Input({4, 10}).Int({4, 1}, 0, 10).Fails("expected shape [4]");
  s.Case("probability_shape").Input({4, 10}).Input({4}).Fails("expected shape [4, 10]");
  s.Case("byte_labels").Input({4, 10}).Bytes({4}).Fails("expected integers (int32 or int64), or probabilities");
  s.Case("smoothing")
      .With(ParseOptions<Cross>("label_smoothing: 2"))
      .Input({4, 10})
      .Int({4}, 0, 10)
      .Fails("option \"label_smoothing\": expected 0 to 1, found 2");
  s.Case("classes")
      .With(ParseOptions<Cross>("classes: 11"))
      .Input({4, 10})
      .Int({4}, 0, 10)
      .Fails("option \"classes\": expected 1 to 10, found 11");
  s.Case("label_in_the_padding")
      .With(ParseOptions<Cross>("classes: 9"))
      .Input({2, 10})
      .Int({2}, 0, 10)
      .Values({3, 9})
      .FailsAtRun("row 1: expected a class in [0, 9) or the ignored -100, found 9");
  s.Case("label_too_large")
      .Input({2, 10})
      .Int({2}, 0, 10)
      .Values({3, 10})
      .FailsAtRun("row 1: expected a class in [0, 10) or the ignored -100, found 10");
}

void GradSamples(SampleBuilder& s) {
  s.Case("labels").Input({4, 21}).Int({4}, 0, 21).Input({4}).Range(3, 5).Input({});
  s.Case("ignored").Input({3, 5}).Int({3}, 0, 5).Values({1, -100, 4}).Input({3}).Range(2, 3).Input({});
  s.Case("padded")
      .With(ParseOptions<Cross>("classes: 37 label_smoothing: 0.1"))
      .Input({3, 40})
      .Int({3}, 0, 37)
      .Values({1, -100, 36})
      .Input({3})
      .Range(3, 5)
      .Input({});
  s.Case("probabilities").Input({4, 40}).Input({4, 40}).Range(0, 1).Input({4}).Range(3, 5).Input({});
  for (const int64_t classes : {72, 8704}) {
    s.Case(absl::StrCat("classes_", classes)).Input({3, classes}).Int({3}, 0, classes).Input({3}).Range(3, 5).Input({});
    s.Case(absl::StrCat("probabilities_", classes))
        .Input({3, classes})
        .Input({3, classes})
        .Range(0, 1)
        .Input({3})
        .Range(9, 11)
        .Input({});
  }
  // On CUDA a kernel before it counts the labels.
  s.Case("many_rows").Input({4100, 3}).Int({4100}, 0, 3).Input({4100}).Range(1, 2).Input({});
  s.Case("lse_shape").Input({4, 7}).Int({4}, 0, 7).Input({5}).Input({}).Fails("expected shape [4]");
  s.Case("bad_label").Input({2, 3}).Int({2}, 0, 3).Values({-1, 0}).Input({2}).Input({}).FailsAtRun("found -1");
}

void TargetGradSamples(SampleBuilder& s) {
  s.Case("probabilities").Input({4, 40}).Input({4}).Range(3, 5).Input({});
  s.Case("padded").With(ParseOptions<Cross>("classes: 37")).Input({4, 40}).Input({4}).Range(3, 5).Input({});
  s.Case("lse_shape").Input({4, 7}).Input({7}).Input({}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(softmax_cross_entropy) {
  return {
      {.name = "softmax_cross_entropy",
       .doc = "loss = mean over rows of -sum(target * log_softmax(logits)); lse = log(sum(exp(logits))) of each row",
       .inputs = {{"logits"}, {"labels", PortType::kAny}},
       .outputs = {{"loss", PortType::kFloat32}, {.name = "lse", .type = PortType::kFloat32, .no_gradient = true}},
       .infer = Infer,
       .layer = Layer,
       .gradient = Gradient,
       .index_bound = ClassBound,
       .cost = FlopsPerElement<6>,
       .kernels = {{.name = "plain", .prepare = Prepare, .run = ForwardCpu},
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareRowsCuda),
                    .run = SNUG_IF_CUDA([](const KernelContext& k) { return CrossEntropyCuda(k, NumbersOfNode(k)); })}},
       .samples = Samples},
      {.name = "softmax_cross_entropy_grad",
       .doc = "dlogits = (exp(logits - lse) * sum(target) - target) * dloss / rows",
       .inputs = {{"logits"}, {"labels", PortType::kAny}, {"lse", PortType::kFloat32}, {"dloss", PortType::kFloat32}},
       .outputs = {{"dlogits"}},
       .infer = InferGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .cost = FlopsPerElement<6>,
       .kernels = {Plain(BackwardCpu),
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareCrossEntropyGradCuda),
                    .run = SNUG_IF_CUDA(
                        [](const KernelContext& k) { return CrossEntropyGradCuda(k, NumbersOfNode(k)); })}},
       .samples = GradSamples},
      {.name = "softmax_cross_entropy_target_grad",
       .doc = "dtarget = (1 - label_smoothing) * (lse - logits) * dloss / rows",
       .inputs = {{"logits"}, {"lse", PortType::kFloat32}, {"dloss", PortType::kFloat32}},
       .outputs = {{"dtarget"}},
       .infer = InferTargetGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .kernels = {Plain(TargetBackwardCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                     return CrossEntropyTargetGradCuda(k, NumbersOfNode(k));
                   }))},
       .samples = TargetGradSamples}};
}

}  // namespace snug::core::ops::softmax_cross_entropy
