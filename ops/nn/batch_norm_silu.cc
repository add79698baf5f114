// Batch normalisation and silu in the same sweep, in training, forward and backward. Only the pass fuse_batch_norm_silu
// makes these nodes, on the CPU and after the backward graph is there, so they have no gradients of their own. The
// backward pass computes what silu was given anew from x, within its sweep.
#include <absl/strings/str_cat.h>

#include <optional>
#include <vector>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kit/costs.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::batch_norm_silu {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) { return InferBatchNormTraining(c, c.options<proto::BatchNorm>().epsilon()); }

absl::Status InferGrad(InferContext& c) {
  return InferBatchNormActivatedGrad(c, c.options<proto::BatchNorm>().epsilon());
}

struct Forward {
  template <class T>
  static BatchNormForward<T> Make(const KernelContext& k) {
    auto call = BatchNormTrainingCall<T>(k, k.options<proto::BatchNorm>().epsilon());
    call.silu = true;
    return call;
  }
};

struct Backward {
  template <class T>
  static BatchNormBackward<T> Make(const KernelContext& k) {
    auto call = BatchNormActivatedGradCall<T>(k, k.options<proto::BatchNorm>().epsilon());
    call.silu = true;
    return call;
  }
};

std::optional<NotServed> Float32Only(const NodeTypes& types) {
  if (types.input(0).dtype == DType::kFloat32) return std::nullopt;
  return ByDesign(absl::StrCat("it is for float32, found ", Name(types.input(0).dtype)));
}

template <class Call>
std::vector<KernelRow> Kernels() {
  return {{.name = "own", .serves = Float32Only, .prepare = PrepareBatchNorm, .run = BatchNormCpuFast<Call>},
          Plain(BatchNormCpu<Call>)};
}

const char* const kOptions[] = {"", "epsilon: 0.001"};

// Adds samples of both layouts that kernels tell apart: channels apart, side by side, and in folded rows.
template <class Add>
void ForEachShape(SampleBuilder& s, Add add) {
  int i = 0;
  for (const Shape& x : {Shape{3, 5, 4, 3}, Shape{7, 19}, Shape{19, 24, 9, 9}}) {
    add(s.Case(absl::StrCat("rank_", x.rank(), "_channels_", x[1]))
            .With(ParseOptions<proto::BatchNorm>(kOptions[i++ % 2])),
        x);
  }
}

void Samples(SampleBuilder& s) {
  ForEachShape(s, [](Sample& sample, const Shape& x) {
    sample.Input(x).Input({x[1]}).Range(0.5, 4).Input({x[1]}).Range(-1, 4);
  });
  s.Case("no_affine").With(ParseOptions<proto::BatchNorm>("affine: false")).Input({5, 4, 3});
  s.Case("one_element").Input({1, 3}).Input({3}).Input({3}).Fails("expected more than one element per channel");
}

void GradSamples(SampleBuilder& s) {
  ForEachShape(s, [](Sample& sample, const Shape& x) {
    sample.Input(x)
        .Input({x[1]})
        .Range(0.5, 4)
        .Input({x[1]})
        .Range(-1, 4)
        .Input({x[1]})
        .Range(-0.1, 0.1)
        .Input({x[1]})
        .Range(0.3, 2)
        .Input(x);
  });
  // silu's slope at 0 is a half, and what is far below 0 or above passes nothing or all.
  s.Case("known_dbias")
      .Input({3, 1})
      .Values({0, -1000, 1000})
      .Absent()
      .Absent()
      .Input({1})
      .Values({0})
      .Input({1})
      .Values({1})
      .Input({3, 1})
      .Values({10, 20, 30})
      .Expect(2, {35});
  s.Case("dy").Input({3, 5}).Absent().Absent().Input({5}).Input({5}).Input({3}).Fails("expected shape [3, 5]");
}

}  // namespace

SNUG_OPS(batch_norm_silu) {
  return {{.name = "batch_norm_silu",
           .doc = "y = silu(batch_norm(x))",
           .inputs = BatchNormInputs(),
           .outputs = BatchNormTrainingOutputs(),
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<13>,
           .kernels = Kernels<Forward>(),
           .samples = Samples},
          {.name = "batch_norm_silu_grad",
           .doc = "dx, dweight, dbias of batch_norm_silu",
           .inputs = BatchNormActivatedGradInputs(),
           .outputs = BatchNormGradOutputs(),
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 5}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = FlopsPerElement<18>,
           .kernels = Kernels<Backward>(),
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::batch_norm_silu
