// fold_batch_norm: the weights and the bias with which a convolution or dense layer computes what it and the batch norm
// of running statistics behind it compute. Only the pass of the same name makes it.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/fold.h"
#include "ops/kernels/batch_norm/ports.h"
#include "ops/kit/dispatch.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::fold_batch_norm {
namespace {

using enum BatchNormFoldPorts::Input;
using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(kWeight, 2, kMaxRank));
  const Shape channels({c.shape(kWeight)[0]});
  for (const int i : {kBias, kScale, kShift, kMean, kVar}) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, channels));
  }
  SNUG_RETURN_IF_ERROR(CheckEpsilon(c, c.options<proto::BatchNorm>().epsilon()));
  c.SetOutput(0, c.input(kWeight));
  c.SetOutput(1, c.input(kWeight).dtype, channels);
  return absl::OkStatus();
}

absl::Status Fold(const KernelContext& k) {
  return DispatchFloating(k.input_type(kWeight).dtype, [&](auto zero) {
    using T = decltype(zero);
    const BatchNormFold<T> fold(k, k.options<proto::BatchNorm>().epsilon());
    const int64_t channels = k.input_type(kWeight).shape[0];
    const int64_t size = k.input_type(kWeight).num_elements() / std::max<int64_t>(1, channels);
    ParallelFor(k.threads(), channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const auto factor = fold.FactorOf(c);
        for (int64_t i = c * size; i < (c + 1) * size; ++i) fold.FoldWeight(i, factor);
        fold.FoldBias(c, factor);
      }
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto statistics = [](auto& sample) -> auto& { return sample.Input({4}).Input({4}).Range(0.3, 2); };
  statistics(s.Case("conv").Input({4, 3, 3, 3}).Input({4}).Input({4}).Range(0.5, 2).Input({4}));
  statistics(s.Case("dense").Input({4, 70}).Absent().Input({4}).Range(0.5, 2).Input({4}));
  statistics(s.Case("no_affine")
                 .With(ParseOptions<proto::BatchNorm>("epsilon: 0.1"))
                 .Input({4, 2, 1, 1})
                 .Input({4})
                 .Absent()
                 .Absent());
  s.Case("known")
      .With(ParseOptions<proto::BatchNorm>("epsilon: 1"))
      .Input({2, 2})
      .Values({1, 2, 3, 4})
      .Input({2})
      .Values({1, 0})
      .Input({2})
      .Values({4, 1})
      .Input({2})
      .Values({0, 5})
      .Input({2})
      .Values({3, 1})
      .Input({2})
      .Values({3, 0})
      .Expect(0, {2, 4, 3, 4})
      .Expect(1, {-4, 4});
  s.Case("statistics").Input({4, 3}).Absent().Absent().Absent().Input({4}).Input({3}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(fold_batch_norm) {
  return {{.name = "fold_batch_norm",
           .doc = "f = scale / sqrt(var + epsilon); y = weight * f, y_bias = (bias - mean) * f + shift",
           .inputs = {{"weight"},
                      {.name = "bias", .optional = true},
                      {"scale", PortType::kFloat32, true},
                      {"shift", PortType::kFloat32, true},
                      {"mean", PortType::kFloat32},
                      {"var", PortType::kFloat32}},
           .outputs = {{"y"}, {"y_bias"}},
           .infer = Infer,
           .kernels = {Plain(Fold), {.device = kOnCuda, .name = "own", .run = SNUG_IF_CUDA([](const KernelContext& k) {
                                                                         return FoldBatchNormCuda(
                                                                             k,
                                                                             k.options<proto::BatchNorm>().epsilon());
                                                                       })}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::fold_batch_norm
