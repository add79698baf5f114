// rmsprop_update, rmsprop_momentum_update: RMSprop (Hinton 2012), in the order of operations of torch.optim.RMSprop.
// Option beta2 is PyTorch's alpha.
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::rmsprop_update {
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
        .Bytes({})
        .Values({gate});
  };
  with("some", "beta2: 0.99 epsilon: 1e-8", {5, 7}, 1);
  with("decay", "beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1 lr_mult: 2", {131}, 1);
  with("gate_closed", "beta2: 0.99 epsilon: 1e-8", {9}, 0);
  s.Case("known")  // from torch.optim.RMSprop
      .With(ParseOptions<proto::Update>("beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({0.01, 0.04})
      .Input({2})
      .Values({0.5, 0.25})
      .Input({})
      .Values({0.01})
      .Bytes({})
      .Values({1})
      .ExpectMutated(0, {0.9483602264950118, -2.002511801670334})
      .ExpectMutated(1, {0.013500000000000003, 0.039625});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Range(0.1, 1)
      .Input({3, 1031})
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1})
      .Int({2}, 0, 100, DType::kInt64);
  s.Case("slot").Input({4}).Input({2}).Input({4}).Input({}).Bytes({}).Fails("[2]: expected shape [4]");
}

void MomentumSamples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& shape, double gate) {
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input(shape)
        .Input(shape)
        .Range(0.1, 1)
        .Input(shape)
        .Input(shape)
        .Input({})
        .Range(0.001, 0.01)
        .Bytes({})
        .Values({gate});
  };
  with("some", "beta2: 0.99 epsilon: 1e-8 momentum: 0.9", {5, 7}, 1);
  with("decay", "beta2: 0.99 epsilon: 1e-8 momentum: 0.5 weight_decay: 0.1 lr_mult: 2", {131}, 1);
  with("gate_closed", "beta2: 0.99 epsilon: 1e-8", {9}, 0);
  s.Case("known")  // from torch.optim.RMSprop
      .With(ParseOptions<proto::Update>("beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1 momentum: 0.9"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({0.01, 0.04})
      .Input({2})
      .Values({0.5, -1.0})
      .Input({2})
      .Values({0.5, 0.25})
      .Input({})
      .Values({0.01})
      .Bytes({})
      .Values({1})
      .ExpectMutated(0, {0.9438602264950119, -1.9935118016703337})
      .ExpectMutated(1, {0.013500000000000003, 0.039625})
      .ExpectMutated(2, {5.613977350498816, -0.6488198329666318});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("beta2: 0.99 epsilon: 1e-8 momentum: 0.5"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Range(0.1, 1)
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1})
      .Int({2}, 0, 100, DType::kInt64);
  s.Case("slot").Input({4}).Input({4}).Input({2}).Input({4}).Input({}).Bytes({}).Fails("[2]: expected shape [4]");
}

}  // namespace

SNUG_OPS(rmsprop_update) {
  return {
      UpdateOp<updates::Rmsprop>(
          "rmsprop_update", "v = alpha v + (1 - alpha) grad^2; param -= lr grad / (sqrt(v) + epsilon)", {"v"}, Samples),
      UpdateOp<updates::RmspropMomentum>("rmsprop_momentum_update",
                                         "v = alpha v + (1 - alpha) grad^2; velocity = momentum velocity + grad / "
                                         "(sqrt(v) + epsilon); param -= lr velocity",
                                         {"v", "velocity"}, MomentumSamples)};
}

}  // namespace snug::core::ops::rmsprop_update
