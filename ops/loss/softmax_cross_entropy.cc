// softmax_cross_entropy: the mean over rows of -sum(target * log_softmax(logits)), where the target is the label's
// class (or given probabilities), smoothed. The forward pass keeps only the log of each row's sum of exponentials. The
// gradient computes the softmax from it again, and writes over the logits where nobody needs them any more.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/kit/vec_math.h"
#include "ops/layer_context.h"
#include "ops/loss/labels.h"
#include "ops/loss/losses_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::softmax_cross_entropy {
namespace {

using proto::ParseOptions;
using Cross = proto::SoftmaxCrossEntropy;

constexpr int64_t kBlock = 256;
constexpr int64_t kChunk = 1 << 14;  // elements in a piece of work

// Entries from one row to the next: the classes, and what pads them.
int64_t Stride(const ValueType& logits) { return logits.shape[logits.shape.rank() - 1]; }
int64_t Classes(const ValueType& logits, const Cross& options) {
  return options.has_classes() ? options.classes() : Stride(logits);
}
int64_t Rows(const ValueType& logits) { return logits.shape.Count(0, logits.shape.rank() - 1); }
int64_t RowsPerChunk(int64_t classes) { return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, classes)); }

absl::Status CheckTarget(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const ValueType& logits = c.input(0);
  const DType labels = c.input(1).dtype;
  if (Stride(logits) < 1) return c.InputError(0, "expected at least one class along the last axis");
  const int64_t classes = Classes(logits, c.options<Cross>());
  if (classes < 1 || classes > Stride(logits)) {
    return c.OptionError("classes", absl::StrCat("expected 1 to ", Stride(logits), ", found ", classes));
  }
  if (labels == DType::kInt32 || labels == DType::kInt64) {
    return c.CheckShape(1, logits.shape.Without(logits.shape.rank() - 1));
  }
  if (labels != logits.dtype) {
    return c.InputError(1, absl::StrCat("expected integers (int32 or int64), or probabilities in ", Name(logits.dtype),
                                        " like the logits; found ", Name(labels)));
  }
  return c.CheckShape(1, logits.shape);
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckTarget(c));
  const double smoothing = c.options<Cross>().label_smoothing();
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return c.OptionError("label_smoothing", absl::StrCat("expected 0 to 1, found ", smoothing));
  }
  const ValueType& logits = c.input(0);
  const DType dtype = Float32PortType(logits.dtype);
  c.SetOutput(0, dtype, Shape());
  c.SetOutput(1, dtype, logits.shape.Without(logits.shape.rank() - 1));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckTarget(c));
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
  std::vector<ValueId> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  c.SetOutput(0, c.Op("softmax_cross_entropy", inputs, c.options_handle()));
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
  return input == 1 ? Classes(types.input(0), types.options.Get<Cross>()) : 0;
}

Cost CostOfNode(const NodeTypes& types) { return {.flops = 6.0 * static_cast<double>(types.input(0).num_elements())}; }

// Calls fn(labels) with integer labels, or with probabilities of type T.
template <class T, class Fn>
absl::Status DispatchTarget(const KernelContext& k, Fn&& fn) {
  const DType dtype = k.input_type(1).dtype;
  if (dtype == DTypeOf<T>::value) return fn(k.input<T>(1));
  return DispatchInteger(dtype, [&](auto zero) { return fn(k.input<decltype(zero)>(1)); });
}

template <class T, class Label>
absl::Status Forward(const KernelContext& k, const Label* labels) {
  using A = Accumulator<T>;
  constexpr bool kSoft = std::is_same_v<T, Label>;
  const T* logits = k.input<T>(0);
  const int64_t rows = Rows(k.input_type(0));
  const int64_t classes = Classes(k.input_type(0), k.options<Cross>());
  const int64_t stride = Stride(k.input_type(0));
  const double smoothing = k.options<Cross>().label_smoothing();
  const int64_t ignored = k.options<Cross>().ignore_index();
  int64_t counted = rows;
  if constexpr (!kSoft) SNUG_RETURN_IF_ERROR(CheckLabels(labels, rows, classes, ignored, &counted));

  Float32Port<T>* lse = k.output<Float32Port<T>>(1);
  double* losses = k.workspace<double>();
  ParallelFor(k.threads(), rows, RowsPerChunk(classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        const T* z = logits + r * stride;
        const A most = LaneMax<A>(classes, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(z[i]); });
        const double sum = LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA { return Exp(static_cast<A>(z[i]) - most); });
        const double row_lse = static_cast<double>(most) + std::log(sum);
        lse[r] = static_cast<Float32Port<T>>(row_lse);
        double loss = 0;
        if constexpr (kSoft) {
          const T* t = labels + r * stride;
          loss = (1 - smoothing) * LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA {
                   return static_cast<A>(t[i]) * (static_cast<A>(row_lse) - static_cast<A>(z[i]));
                 });
        } else if (labels[r] != ignored) {
          loss = (1 - smoothing) * (row_lse - static_cast<double>(z[labels[r]]));
        } else {
          losses[r] = 0;
          continue;
        }
        if (smoothing > 0) {
          loss += smoothing / static_cast<double>(classes) * LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA {
                    return static_cast<A>(row_lse) - static_cast<A>(z[i]);
                  });
        }
        losses[r] = loss;
      }
    });
  });
  double total = 0;
  for (int64_t r = 0; r < rows; ++r) total += losses[r];
  *k.output<Float32Port<T>>(0) = static_cast<Float32Port<T>>(total / static_cast<double>(counted));
  return absl::OkStatus();
}

// Computes dlogits = (softmax * sum(target) - target) * dloss / rows.
template <class T, class Label>
absl::Status Backward(const KernelContext& k, const Label* labels) {
  using A = Accumulator<T>;
  constexpr bool kSoft = std::is_same_v<T, Label>;
  const T* logits = k.input<T>(0);
  const int64_t rows = Rows(k.input_type(0));
  const int64_t classes = Classes(k.input_type(0), k.options<Cross>());
  const int64_t stride = Stride(k.input_type(0));
  const double smoothing = k.options<Cross>().label_smoothing();
  const int64_t ignored = k.options<Cross>().ignore_index();
  int64_t counted = rows;
  if constexpr (!kSoft) SNUG_RETURN_IF_ERROR(CheckLabels(labels, rows, classes, ignored, &counted));

  const Float32Port<T>* lse = k.input<Float32Port<T>>(2);
  T* dlogits = k.output<T>(0);
  const A scale = static_cast<A>(static_cast<double>(*k.input<Float32Port<T>>(3)) / static_cast<double>(counted));
  const A even = static_cast<A>(smoothing / static_cast<double>(classes));
  const A sharp = static_cast<A>(1 - smoothing);
  ParallelFor(k.threads(), rows, RowsPerChunk(classes), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = begin; r < end; ++r) {
        const T* z = logits + r * stride;
        T* dz = dlogits + r * stride;
        const A row_lse = static_cast<A>(lse[r]);
        if constexpr (kSoft) {
          const T* t = labels + r * stride;
          const double given = LaneSum<A>(classes, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(t[i]); });
          const A total = static_cast<A>((1 - smoothing) * given + smoothing);
          for (int64_t i = 0; i < classes; ++i) {
            const A softmax = Exp(static_cast<A>(z[i]) - row_lse);
            dz[i] = static_cast<T>((softmax * total - sharp * static_cast<A>(t[i]) - even) * scale);
          }
        } else if (labels[r] != ignored) {
          // This is computed first, because z may be dz.
          const A own = Exp(static_cast<A>(z[labels[r]]) - row_lse) - even - sharp;
          // There are two sweeps over a block that stays in the cache: with the store between them the compiler would
          // vectorise neither.
          for (int64_t first = 0; first < classes; first += kBlock) {
            const int64_t n = std::min(kBlock, classes - first);
            A block[kBlock];
            for (int64_t i = 0; i < n; ++i) block[i] = Exp(static_cast<A>(z[first + i]) - row_lse);
            for (int64_t i = 0; i < n; ++i) dz[first + i] = static_cast<T>((block[i] - even) * scale);
          }
          dz[labels[r]] = static_cast<T>(own * scale);
        } else {
          for (int64_t i = 0; i < classes; ++i) dz[i] = static_cast<T>(A(0));
        }
        std::fill(dz + classes, dz + stride, static_cast<T>(A(0)));
      }
    });
  });
  return absl::OkStatus();
}

// For probabilities that are computed, not given: dtarget = ((1 - smoothing) * -log_softmax) * dloss / rows.
template <class T>
absl::Status TargetBackward(const KernelContext& k) {
  using A = Accumulator<T>;
  const T* logits = k.input<T>(0);
  const Float32Port<T>* lse = k.input<Float32Port<T>>(1);
  const int64_t rows = Rows(k.input_type(0));
  const int64_t classes = Classes(k.input_type(0), k.options<Cross>());
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
    return DispatchTarget<T>(k, [&](const auto* labels) { return Forward<T>(k, labels); });
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return DispatchTarget<T>(k, [&](const auto* labels) { return Backward<T>(k, labels); });
  });
}

#if SNUG_HAS_CUDA
CrossEntropyNumbers NumbersOf(const KernelContext& k) {
  const Cross& options = k.options<Cross>();
  return {.smoothing = options.label_smoothing(),
          .ignored = options.ignore_index(),
          .classes = Classes(k.input_type(0), options)};
}
#endif

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
       .cost = CostOfNode,
       .kernels = {{.name = "plain", .prepare = Prepare, .run = ForwardCpu},
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareRowsCuda),
                    .run = SNUG_IF_CUDA([](const KernelContext& k) { return CrossEntropyCuda(k, NumbersOf(k)); })}},
       .samples = Samples},
      {.name = "softmax_cross_entropy_grad",
       .doc = "dlogits = (exp(logits - lse) * sum(target) - target) * dloss / rows",
       .inputs = {{"logits"}, {"labels", PortType::kAny}, {"lse", PortType::kFloat32}, {"dloss", PortType::kFloat32}},
       .outputs = {{"dlogits"}},
       .infer = InferGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .cost = CostOfNode,
       .kernels = {Plain(BackwardCpu),
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareCountCuda),
                    .run = SNUG_IF_CUDA([](const KernelContext& k) { return CrossEntropyGradCuda(k, NumbersOf(k)); })}},
       .samples = GradSamples},
      {.name = "softmax_cross_entropy_target_grad",
       .doc = "dtarget = (1 - label_smoothing) * (lse - logits) * dloss / rows",
       .inputs = {{"logits"}, {"lse", PortType::kFloat32}, {"dloss", PortType::kFloat32}},
       .outputs = {{"dtarget"}},
       .infer = InferTargetGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .kernels = {Plain(TargetBackwardCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                     return CrossEntropyTargetGradCuda(k, NumbersOf(k));
                   }))},
       .samples = TargetGradSamples}};
}

}  // namespace snug::core::ops::softmax_cross_entropy
