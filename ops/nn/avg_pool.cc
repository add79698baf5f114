// avg_pool: the mean of each window. The gradient needs only shapes.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/kernels/pool/infer.h"
#include "ops/kernels/pool/pool.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"
#if SNUG_HAS_ONEDNN
#include "ops/kernels/pool/onednn.h"
#endif

namespace snug::core::ops::avg_pool {
namespace {

absl::StatusOr<PoolGeometry> Geometry(const proto::Pool& options, const Shape& x, const Layout& layout) {
  if (!options.dilation().empty()) return InferContext::OptionError("dilation", "is for max_pool only");
  return MakePoolGeometry(options, x, layout);
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
  const ValueType& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(c.options<proto::Pool>(), x.shape, x.layout));
  SetPooled(c, g, /*with_index=*/false);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<proto::PoolGrad>();
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(options));
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(options.pool(), x, c.input(0).layout));
  return SetUnpooled(c, g, x);
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("avg_pool_grad", {g.output_grad(0)}, WithPoolAndInputShape(g)));
  return g.status();
}

template <AveragePoolFn pool>
absl::Status Forward(const KernelContext& k) {
  const auto& options = k.options<proto::Pool>();
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(options, k.input_type(0).shape, k.input_type(0).layout));
  return pool(k, g, options.include_padding());
}

template <AveragePoolFn unpool>
absl::Status Backward(const KernelContext& k) {
  const proto::Pool& options = k.options<proto::PoolGrad>().pool();
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(options, k.output_type(0).shape, k.output_type(0).layout));
  return unpool(k, g, options.include_padding());
}

#if SNUG_HAS_ONEDNN

// By itself the op takes our own loops; a tuning may choose the library's kernels.
constexpr absl::string_view kOneDnn = "oneDNN";

absl::StatusOr<onednn::KernelPtr> MakeForward(const NodeTypes& t, int threads) {
  const auto& options = t.options.Get<proto::Pool>();
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(options, t.input(0).shape, t.input(0).layout));
  return onednn::MakeAveragePool({.geometry = g,
                                  .x = t.input(0),
                                  .y = t.output(0),
                                  .include_padding = options.include_padding(),
                                  .threads = threads});
}

absl::StatusOr<onednn::KernelPtr> MakeBackward(const NodeTypes& t, int threads) {
  const proto::Pool& options = t.options.Get<proto::PoolGrad>().pool();
  SNUG_ASSIGN_OR_RETURN(const PoolGeometry g, Geometry(options, t.output(0).shape, t.output(0).layout));
  return onednn::MakeAveragePoolGrad({.geometry = g,
                                      .x = t.output(0),
                                      .y = t.input(0),
                                      .include_padding = options.include_padding(),
                                      .threads = threads});
}

using MakeFn = absl::StatusOr<onednn::KernelPtr> (*)(const NodeTypes&, int threads);

template <MakeFn make>
absl::Status Prepare(PrepareContext& c) {
  if (c.choice().empty()) {
    c.Decline(ByDesign("our own loops serve unless a tuning chooses the library's kernel"));
    return absl::OkStatus();
  }
  if (c.choice() != kOneDnn) {
    return absl::UnimplementedError(absl::StrCat("there is no kernel \"", c.choice(), "\" for this"));
  }
  SNUG_ASSIGN_OR_RETURN(const onednn::KernelPtr kernel, make(c.types(), c.threads()));
  c.SetWorkspaceBytes(kernel->workspace_bytes());
  c.SetKernel(kernel);
  return absl::OkStatus();
}

template <MakeFn make>
absl::StatusOr<std::vector<std::string>> Choices(const PrepareContext& c) {
  if (!onednn::Supports(c.types().output(0).dtype)) return std::vector<std::string>();
  const absl::Status made = make(c.types(), c.threads()).status();
  if (absl::IsUnimplemented(made)) return std::vector<std::string>();
  SNUG_RETURN_IF_ERROR(made);
  return std::vector<std::string>{std::string(kOneDnn)};
}

absl::Status RunOneDnn(const KernelContext& k) {
  return k.prepared<onednn::Kernel>().Run({k.input<void>(0), k.output<void>(0)}, k.workspace());
}

constexpr auto kFast = RunOneDnn;
constexpr auto kPrepare = Prepare<MakeForward>, kPrepareGrad = Prepare<MakeBackward>;
constexpr auto kChoices = Choices<MakeForward>, kGradChoices = Choices<MakeBackward>;

#else

constexpr auto kFast = nullptr;
constexpr auto kPrepare = nullptr, kPrepareGrad = nullptr;
constexpr auto kChoices = nullptr, kGradChoices = nullptr;

#endif

Cost ForwardCost(const NodeTypes& t) {  // one addition for each tap of each window
  const absl::StatusOr<PoolGeometry> g = Geometry(t.options.Get<proto::Pool>(), t.input(0).shape, t.input(0).layout);
  return {.flops = static_cast<double>(t.output(0).num_elements()) * static_cast<double>(g.ok() ? g->window() : 1)};
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Pool>;
  s.Case("whole_packs").Input({2, 16, 9, 11}).With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("halves").Input({2, 21, 8, 6}).With(options("kernel: 2"));
  s.Case("tiles").Input({2, 6, 9, 11}).With(options("kernel: 2"));
  s.Case("tiles_with_padding").Input({2, 6, 8, 11}).With(options("kernel: 2 pad: 1"));
  s.Case("tiles_in_pieces").Input({1, 5, 4, 171}).With(options("kernel: [2, 7]"));
  s.Case("windows_in_pieces").Input({1, 3, 9, 100}).With(options("kernel: 7 stride: 3"));
  s.Case("overlapping").Input({2, 19, 9, 11}).With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("without_padding").Input({2, 3, 9, 11}).With(options("kernel: 3 stride: 2 pad: 1 include_padding: false"));
  s.Case("many_channels").Input({1, 70, 5, 4}).With(options("kernel: 2 stride: 1"));
  s.Case("stride_1").Input({2, 21, 5, 9}).With(options("kernel: 3 stride: 1 pad: 1 include_padding: false"));
  s.Case("five_by_two").Input({1, 18, 5, 9}).With(options("kernel: 5 stride: 2 pad: 2 include_padding: false"));
  s.Case("wide").Input({1, 2, 5, 300}).With(options("kernel: [2, 3] stride: [2, 2] pad: [0, 1]"));
  s.Case("stride_1_and_3").Input({2, 3, 7, 40}).With(options("kernel: [3, 2] stride: [1, 3]"));
  s.Case("gaps").Input({2, 3, 7, 8}).With(options("kernel: 2 stride: 3"));
  s.Case("ceil_mode").Input({2, 3, 7, 8}).With(options("kernel: 3 stride: 2 ceil_mode: true"));
  s.Case("ceil_mode_pad").Input({1, 2, 4, 5}).With(options("kernel: 3 stride: 3 pad: 1 ceil_mode: true"));
  s.Case("same").Input({2, 3, 7, 8}).With(options("kernel: 3 stride: 2 padding: SAME include_padding: false"));
  s.Case("line").Input({2, 3, 9}).With(options("kernel: 3 stride: 2 pad: 1"));
  s.Case("volume").Input({2, 3, 4, 5, 6}).With(options("kernel: [2, 3, 2] stride: [1, 2, 2] pad: [0, 1, 1]"));
  s.Case("counts_padding")
      .Input({1, 1, 3})
      .Values({6, 12, 18})
      .With(options("kernel: 3 stride: 2 pad: 1"))
      .Expect(0, {6, 10});
  s.Case("counts_no_padding")
      .Input({1, 1, 3})
      .Values({6, 12, 18})
      .With(options("kernel: 3 stride: 2 pad: 1 include_padding: false"))
      .Expect(0, {9, 15});
  // The second window reaches beyond the padding; only what lies within it counts.
  s.Case("counts_up_to_the_padding")
      .Input({1, 1, 4})
      .Values({1, 2, 3, 4})
      .With(options("kernel: 3 stride: 3 ceil_mode: true"))
      .Expect(0, {2, 4});
  // The only window reaches beyond the input.
  s.Case("ceil_mode_one_window")
      .Input({1, 1, 2})
      .Values({3, 5})
      .With(options("kernel: 3 ceil_mode: true"))
      .Expect(0, {4});
  s.Case("ceil_mode_no_window")
      .Input({1, 1, 2})
      .With(options("kernel: 4 stride: 2 ceil_mode: true"))
      .Fails("a window of 4 with dilation 1 does not fit axis 2 of the input: 2 + 0 of padding");
  s.Case("dilation").Input({2, 3, 9}).With(options("kernel: 2 dilation: 2")).Fails("is for max_pool only");
  s.Case("rank").Input({2, 3}).With(options("kernel: 2")).Fails("expected 3 to 5 dimensions");
  s.Case("no_kernel").Input({2, 3, 4}).With(options("")).Fails("option \"kernel\": is missing");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::PoolGrad>;
  s.Case("overlapping").Input({2, 3, 3, 4}).With(options("pool { kernel: 2 stride: 1 } dim: [2, 3, 4, 5]"));
  s.Case("known")
      .Input({1, 1, 2})
      .Values({2, 4})
      .With(options("pool { kernel: 2 stride: 1 } dim: [1, 1, 3]"))
      .Expect(0, {1, 3, 2});
  s.Case("wrong_shape")
      .Input({2, 3, 2})
      .With(options("pool { kernel: 2 stride: 1 } dim: [2, 3, 4]"))
      .Fails("expected shape [2, 3, 3]");
}

}  // namespace

SNUG_OPS(avg_pool) {
  return {{.name = "avg_pool",
           .doc = "y = the mean of each window; padding counts as zeros unless include_padding is false",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = ForwardCost,
           .kernels = {{.name = "onednn",
                        .library = "oneDNN",
                        .serves = NotInDouble,
                        .prepare = kPrepare,
                        .variants = kChoices,
                        .run = kFast},
                       Plain(Forward<AveragePool>),
                       OwnOnCuda(SNUG_IF_CUDA(Forward<AveragePoolCuda>))},
           .samples = Samples},
          {.name = "avg_pool_grad",
           .doc = "dx = the sum over the windows that cover it of dy / the window's size",
           .inputs = {{"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .traits = {.layout = LayoutRule::kPrefers},
           .kernels = {{.name = "onednn",
                        .library = "oneDNN",
                        .serves = NotInDouble,
                        .prepare = kPrepareGrad,
                        .variants = kGradChoices,
                        .run = kFast},
                       Plain(Backward<AverageUnpool>),
                       OwnOnCuda(SNUG_IF_CUDA(Backward<AverageUnpoolCuda>))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::avg_pool
