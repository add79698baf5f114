// clip_by_norm: scales one gradient so that the norm of all of them is at most max_norm, as
// torch.nn.utils.clip_grad_norm_ does.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/op_def.h"
#include "ops/optim/gradients_cuda.h"
#include "ops/optim/update.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::clip_by_norm {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, Shape()));
  const double max_norm = c.options<proto::ClipNorm>().max_norm();
  if (!(max_norm > 0)) return c.OptionError("max_norm", absl::StrCat("expected more than 0, found ", max_norm));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status ClipCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const T* g = k.input<T>(0);
    T* y = k.output<T>(0);
    const double norm = static_cast<double>(*k.input<Float32Port<T>>(1));
    const A scale = static_cast<A>(ClippingFactor(k.options<proto::ClipNorm>().max_norm(), norm));
    ForEachElement(k.threads(), k.input_type(0).num_elements(),
                   [=](int64_t i) SNUG_LAMBDA { y[i] = static_cast<T>(static_cast<A>(g[i]) * scale); });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto options = ParseOptions<proto::ClipNorm>("max_norm: 2");
  s.Case("clipped").With(options).Input({5, 27}).Input({}).Range(3, 4);
  s.Case("whole_packs").With(options).Input({5, 32}).Input({}).Range(3, 4);
  s.Case("small").With(options).Input({131}).Input({}).Range(0.5, 1);
  s.Case("known").With(options).Input({2}).Values({3, 4}).Input({}).Values({5}).Expect(
      0, {1.199999760000048, 1.599999680000064});
  s.Case("norm_shape").With(options).Input({3}).Input({1}).Fails("input 1 \"norm\" [1]: expected shape []");
  s.Case("max_norm").Input({3}).Input({}).Fails("option \"max_norm\": expected more than 0, found 0");
}

}  // namespace

SNUG_OPS(clip_by_norm) {
  return {{.name = "clip_by_norm",
           .doc = "y = grad * min(1, max_norm / (norm + 1e-6))",
           .inputs = {{"grad"}, {"norm", PortType::kFloat32}},
           .outputs = {{"y"}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(ClipCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return ClipByNormCuda(k, k.options<proto::ClipNorm>().max_norm());
                       }))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::clip_by_norm
