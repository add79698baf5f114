// lion_update: Lion (Chen et al. 2023, algorithm 2). Only the sign of a mean of gradients counts; the decay acts on the
// parameter.
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::lion_update {
namespace {

using proto::ParseOptions;

void Samples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& shape, double gate) {
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input(shape)
        .Input(shape)
        .Input(shape)
        .Input({})
        .Range(0.001, 0.01)
        .Bytes({})
        .Values({gate});
  };
  with("some", "beta1: 0.9 beta2: 0.99", {5, 7}, 1);
  with("decay", "beta1: 0.9 beta2: 0.99 weight_decay: 0.1 lr_mult: 2", {131}, 1);
  with("gate_closed", "beta1: 0.9 beta2: 0.99", {9}, 0);
  s.Case("known")  // from the paper's formulas
      .With(ParseOptions<proto::Update>("beta1: 0.9 beta2: 0.99 weight_decay: 0.1"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({0.1, -0.2})
      .Input({2})
      .Values({0.5, 0.25})
      .Input({})
      .Values({0.01})
      .Bytes({})
      .Values({1})
      .ExpectMutated(0, {0.989, -1.988})
      .ExpectMutated(1, {0.10400000000000001, -0.1955});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("beta1: 0.9 beta2: 0.99 weight_decay: 0.1"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1})
      .Int({2}, 0, 100, DType::kInt64);
  s.Case("slot").Input({4}).Input({2}).Input({4}).Input({}).Bytes({}).Fails("[2]: expected shape [4]");
}

}  // namespace

SNUG_OPS(lion_update) {
  return {UpdateOp<updates::Lion>(
      "lion_update",
      "param -= lr (sign(beta1 m + (1 - beta1) grad) + weight_decay param); m = beta2 m + (1 - beta2) grad", {"m"},
      Samples)};
}

}  // namespace snug::core::ops::lion_update
