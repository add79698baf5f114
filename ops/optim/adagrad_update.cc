// adagrad_update: Adagrad (Duchi et al. 2011), in the order of operations of torch.optim.Adagrad. The steps before this
// one, which may make its rate smaller, come from the random state {seed, step}.
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::adagrad_update {
namespace {

using proto::ParseOptions;

void Samples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& shape, double gate) {
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input(shape)
        .Input(shape)
        .Range(0.1, 1)
        .Input(shape)
        .Input({})
        .Range(0.001, 0.01)
        .Int({2}, 0, 100, DType::kInt64)
        .Values({1, 9})
        .Bytes({})
        .Values({gate});
  };
  with("some", "epsilon: 1e-10", {5, 7}, 1);
  with("decay", "epsilon: 1e-10 weight_decay: 0.1 lr_mult: 2 lr_decay: 0.5", {131}, 1);
  with("gate_closed", "epsilon: 1e-10", {9}, 0);
  s.Case("known")  // from torch.optim.Adagrad
      .With(ParseOptions<proto::Update>("epsilon: 1e-10 weight_decay: 0.1"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({0.01, 0.04})
      .Input({2})
      .Values({0.5, 0.25})
      .Input({})
      .Values({0.01})
      .Int({2}, 0, 100, DType::kInt64)
      .Values({1, 9})
      .Bytes({})
      .Values({1})
      .ExpectMutated(0, {0.9901360607633002, -2.0024253562491867})
      .ExpectMutated(1, {0.37, 0.0425});
  s.Case("known_lr_decay")  // from torch.optim.Adagrad
      .With(ParseOptions<proto::Update>("epsilon: 1e-10 lr_decay: 0.25"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({0.01, 0.04})
      .Input({2})
      .Values({0.5, 0.25})
      .Input({})
      .Values({0.01})
      .Int({2}, 0, 100, DType::kInt64)
      .Values({1, 9})
      .Bytes({})
      .Values({1})
      .ExpectMutated(0, {0.9969828286907735, -2.0024026732590743})
      .ExpectMutated(1, {0.26, 0.10250000000000001});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("epsilon: 1e-10 weight_decay: 0.1"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Range(0.1, 1)
      .Input({3, 1031})
      .Input({})
      .Range(0.001, 0.01)
      .Int({2}, 0, 100, DType::kInt64)
      .Bytes({})
      .Values({1});
  s.Case("slot")
      .Input({4})
      .Input({2})
      .Input({4})
      .Input({})
      .Int({2}, 0, 9, DType::kInt64)
      .Bytes({})
      .Fails("[2]: expected shape [4]");
  s.Case("state").Input({4}).Input({4}).Input({4}).Input({}).Int({2}, 0, 9).Bytes({}).Fails(
      "expected int64[2], found int32[2]");
}

}  // namespace

SNUG_OPS(adagrad_update) {
  return {UpdateOp<updates::Adagrad, /*kCounts=*/true>(
      "adagrad_update", "sum += grad^2; param -= lr / (1 + lr_decay step) grad / (sqrt(sum) + epsilon)", {"sum"},
      Samples)};
}

}  // namespace snug::core::ops::adagrad_update
