// softmax_cross_entropy_with_grad: the loss, whether it is finite, and the gradient of the logits at once, where the
// gradient of the loss is a constant. On CUDA it saves launches; only the pass loss_with_gradient makes it.
#include <limits>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/losses_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::softmax_cross_entropy_with_grad {
namespace {

using cross_entropy::NumbersOf;
using proto::ParseOptions;
using Both = proto::CrossEntropyWithGrad;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(cross_entropy::CheckInputs(c, NumbersOf(c.options<Both>().cross_entropy(), c.input(0))));
  c.SetOutput(0, Float32PortType(c.input(0).dtype), Shape());
  c.SetOutput(1, DType::kUint8, Shape());
  c.SetOutput(2, c.input(0));
  return absl::OkStatus();
}

int64_t ClassBound(const NodeTypes& types, int input) {
  return input == 1 ? NumbersOf(types.options.Get<Both>().cross_entropy(), types.input(0)).classes : 0;
}

absl::Status Prepare(PrepareContext& c) {  // makes room for the rows' losses and sums of exponentials
  c.SetWorkspaceBytes(2 * cross_entropy::Rows(c.types().input(0)) * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

absl::Status Run(const KernelContext& k) {
  const Both& options = k.options<Both>();
  const cross_entropy::Numbers numbers = NumbersOf(options.cross_entropy(), k.input_type(0));
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return cross_entropy::DispatchTarget<T>(k, [&](const auto* labels) -> absl::Status {
      auto* losses = k.workspace<double>();
      auto* lse = reinterpret_cast<S*>(losses + cross_entropy::Rows(k.input_type(0)));
      S* loss = k.output<S>(0);
      SNUG_RETURN_IF_ERROR(cross_entropy::Forward<T>(k, numbers, labels, losses, loss, lse));
      const S magnitude = *loss < S(0) ? -*loss : *loss;
      *k.output<uint8_t>(1) = magnitude <= std::numeric_limits<S>::max() ? 1 : 0;
      return cross_entropy::Backward<T>(k, numbers, labels, lse, options.dloss(), k.output<T>(2));
    });
  });
}

#if SNUG_HAS_CUDA
absl::Status RunOnCuda(const KernelContext& k) {
  const Both& options = k.options<Both>();
  return CrossEntropyWithGradCuda(k, NumbersOf(options.cross_entropy(), k.input_type(0)), options.dloss());
}
#endif

void Samples(SampleBuilder& s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  s.Case("labels").Input({4, 10}).Int({4}, 0, 10);
  s.Case("dloss").With(ParseOptions<Both>("dloss: -0.25")).Input({2, 5, 37}).Int({2, 5}, 0, 37, DType::kInt64);
  s.Case("known")
      .With(ParseOptions<Both>("dloss: 4"))
      .Input({2, 2})
      .Values({0, 0, 3, 3})
      .Int({2}, 0, 2)
      .Values({0, 1})
      .Expect(0, {0.693147180559945309})
      .Expect(1, {1})
      .Expect(2, {-1, 1, 1, -1});
  s.Case("infinite").Input({1, 2}).Values({-kInfinity, 0}).Int({1}, 0, 2).Values({0}).Expect(1, {0});
  s.Case("ignored")
      .With(ParseOptions<Both>("cross_entropy { ignore_index: 0 label_smoothing: 0.25 }"))
      .Input({5, 7})
      .Int({5}, 0, 7)
      .Values({3, 0, 0, 2, 6});
  s.Case("padded")
      .With(ParseOptions<Both>("cross_entropy { classes: 37 label_smoothing: 0.1 }"))
      .Input({3, 40})
      .Int({3}, 0, 37)
      .Values({1, -100, 36});
  s.Case("probabilities").Input({4, 40}).Input({4, 40}).Range(0, 1);
  // On CUDA a few threads, a warp or a block hold a row, or a block streams it; one block does all rows, or a kernel
  // after it adds them up; and a kernel before it counts the labels of many.
  for (const int64_t classes : {72, 1600, 8704}) {
    s.Case(absl::StrCat("classes_", classes)).Input({6, classes}).Range(-4, 4).Int({6}, 0, classes);
    s.Case(absl::StrCat("probabilities_", classes))
        .With(ParseOptions<Both>("cross_entropy { label_smoothing: 0.1 }"))
        .Input({6, classes})
        .Range(-4, 4)
        .Input({6, classes})
        .Range(0, 2 / static_cast<double>(classes));
  }
  for (const int64_t rows : {64, 130}) {
    s.Case(absl::StrCat("rows_", rows)).Input({rows, 10}).Int({rows}, 0, 10);
    s.Case(absl::StrCat("rows_of_packs_", rows)).Input({rows, 40}).Int({rows}, 0, 40);
  }
  s.Case("many_rows").Input({4100, 3}).Int({4100}, 0, 3);
  s.Case("smoothing")
      .With(ParseOptions<Both>("cross_entropy { label_smoothing: 2 }"))
      .Input({4, 10})
      .Int({4}, 0, 10)
      .Fails("option \"label_smoothing\": expected 0 to 1, found 2");
  s.Case("bad_label").Input({2, 3}).Int({2}, 0, 3).Values({-1, 0}).FailsAtRun("found -1");
}

}  // namespace

SNUG_OPS(softmax_cross_entropy_with_grad) {
  return {{.name = "softmax_cross_entropy_with_grad",
           .doc = "softmax_cross_entropy's loss, whether it is finite, and dlogits for a constant dloss",
           .inputs = {{"logits"}, {"labels", PortType::kAny}},
           .outputs = {{.name = "loss", .type = PortType::kFloat32, .no_gradient = true},
                       {"finite", PortType::kBytes},
                       {.name = "dlogits", .no_gradient = true}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, 2, 0}},
           .index_bound = ClassBound,
           .cost = FlopsPerElement<12>,
           .kernels = {{.name = "plain", .prepare = Prepare, .run = Run},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareCrossEntropyWithGradCuda),
                        .run = SNUG_IF_CUDA(RunOnCuda)}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::softmax_cross_entropy_with_grad
