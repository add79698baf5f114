// accuracy and top_k_accuracy: the fraction of rows whose label is among the k classes with the highest scores. Among
// equal scores the lower class ranks first; a NaN ranks above all, so that a row of NaNs is not right by accident. Rows
// whose label is the ignored one do not count, as in the losses; if no row counts, the result is NaN.
#include <absl/strings/str_cat.h>

#include <cmath>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/loss/labels.h"
#include "ops/loss/losses_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::accuracy {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const Shape& shape = c.shape(0);
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, shape.Without(shape.rank() - 1)));
  c.SetOutput(0, Float32PortType(c.input(0).dtype), Shape());
  return absl::OkStatus();
}

absl::Status InferTopK(InferContext& c) {
  SNUG_RETURN_IF_ERROR(Infer(c));
  const int64_t k = c.options<proto::TopK>().k();
  const int64_t classes = c.shape(0)[c.shape(0).rank() - 1];
  if (k >= 1 && k <= classes) return absl::OkStatus();
  return c.OptionError("k", absl::StrCat("expected 1 to ", classes, " (the classes), found ", k));
}

absl::Status Count(const KernelContext& context, int64_t k, int64_t ignored) {
  return DispatchFloating(context.input_type(0).dtype, [&](auto zero) {
    return DispatchInteger(context.input_type(1).dtype, [&](auto integer) -> absl::Status {
      using T = decltype(zero);
      const T* scores = context.input<T>(0);
      const auto* labels = context.input<decltype(integer)>(1);
      const int64_t rows = context.input_type(1).num_elements();
      const int64_t classes = context.input_type(0).shape[context.input_type(0).shape.rank() - 1];
      int64_t counted = 0;
      SNUG_RETURN_IF_ERROR(CheckLabels(labels, rows, classes, ignored, &counted));
      int64_t right = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = scores + r * classes;
        const int64_t label = labels[r];
        if (label == ignored) continue;
        int64_t above = row[label] != row[label] ? k : 0;  // how many classes rank before the label
        for (int64_t c = 0; c < classes; ++c) {
          above += !(row[c] <= row[label]) || (c < label && row[c] == row[label]) ? 1 : 0;
        }
        right += above < k ? 1 : 0;
      }
      *context.output<Float32Port<T>>(0) =
          static_cast<Float32Port<T>>(static_cast<double>(right) / static_cast<double>(counted));
      return absl::OkStatus();
    });
  });
}

absl::Status AccuracyCpu(const KernelContext& k) { return Count(k, 1, k.options<proto::Accuracy>().ignore_index()); }
absl::Status TopKCpu(const KernelContext& k) {
  return Count(k, k.options<proto::TopK>().k(), k.options<proto::TopK>().ignore_index());
}

void Samples(SampleBuilder& s) {
  s.Case("random").Input({32, 5}).Int({32}, 0, 5);
  s.Case("sequence").Input({4, 9, 3}).Int({4, 9}, 0, 3, DType::kInt64);
  s.Case("known").Input({2, 3}).Values({1, 3, 2, 5, 4, 6}).Int({2}, 0, 3).Values({1, 0}).Expect(0, {0.5});
  s.Case("ties").Input({2, 2}).Values({1, 1, 1, 1}).Int({2}, 0, 2).Values({0, 1}).Expect(0, {0.5});
  s.Case("not_a_number").Input({2, 2}).Values({NAN, 1, NAN, NAN}).Int({2}, 0, 2).Values({1, 0}).Expect(0, {0});
  s.Case("ignored")
      .Input({4, 2})
      .Values({1, 3, 5, 4, 1, 2, 2, 1})
      .Int({4}, 0, 2)
      .Values({1, -100, 0, -100})
      .Expect(0, {0.5});
  s.Case("ignored_class")
      .With(ParseOptions<proto::Accuracy>("ignore_index: 0"))
      .Input({3, 2})
      .Values({1, 3, 5, 4, 2, 1})
      .Int({3}, 0, 2)
      .Values({1, 0, 0})
      .Expect(0, {1});
  s.Case("many_rows").Input({1100, 5}).Int({1100}, 0, 5);
  s.Case("wide_rows").Input({6, 40}).Int({6}, 0, 40);
  s.Case("labels").Input({4, 10}).Int({4, 1}, 0, 10).Fails("expected shape [4]");
  s.Case("bad_label")
      .Input({1, 10})
      .Int({1}, 10, 11)
      .FailsAtRun("row 0: expected a class in [0, 10) or the ignored -100, found 10");
}

void TopKSamples(SampleBuilder& s) {
  s.Case("random").With(ParseOptions<proto::TopK>("k: 3")).Input({32, 9}).Int({32}, 0, 9);
  s.Case("known")
      .With(ParseOptions<proto::TopK>("k: 2"))
      .Input({2, 3})
      .Values({1, 3, 2, 5, 4, 6})
      .Int({2}, 0, 3)
      .Values({0, 0})
      .Expect(0, {0.5});
  s.Case("ignored")
      .With(ParseOptions<proto::TopK>("k: 2 ignore_index: 2"))
      .Input({3, 3})
      .Values({1, 3, 2, 5, 4, 6, 1, 2, 3})
      .Int({3}, 0, 3)
      .Values({2, 0, 0})
      .Expect(0, {0.5});
  s.Case("all").With(ParseOptions<proto::TopK>("k: 3")).Input({2, 3}).Int({2}, 0, 3).Expect(0, {1});
  s.Case("k").Input({2, 3}).Int({2}, 0, 3).Fails("option \"k\": expected 1 to 3 (the classes), found 5");
}

}  // namespace

SNUG_OPS(accuracy) {
  return {{.name = "accuracy",
           .doc = "the fraction of rows whose highest score is the label's",
           .inputs = {{"scores"}, {"labels", PortType::kInteger}},
           .outputs = {{.name = "accuracy", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = Infer,
           .index_bound = LabelBound,
           .cost = FlopsPerElement<1>,
           .kernels = {Plain(AccuracyCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareRowsCuda),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          return TopKCuda(k, 1, k.options<proto::Accuracy>().ignore_index());
                        })}},
           .samples = Samples},
          {.name = "top_k_accuracy",
           .doc = "the fraction of rows whose label has one of the k highest scores",
           .inputs = {{"scores"}, {"labels", PortType::kInteger}},
           .outputs = {{.name = "accuracy", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = InferTopK,
           .index_bound = LabelBound,
           .cost = FlopsPerElement<1>,
           .kernels = {Plain(TopKCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareRowsCuda),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          const auto& options = k.options<proto::TopK>();
                          return TopKCuda(k, options.k(), options.ignore_index());
                        })}},
           .samples = TopKSamples}};
}

}  // namespace snug::core::ops::accuracy
