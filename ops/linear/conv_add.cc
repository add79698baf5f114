// conv_add: a convolution, the addition of a shortcut and an activation in one sweep. Only the pass add_in_convolution
// makes it. The library adds to what lies where its result goes, so the result takes the shortcut's place.
#include "ops/conv_add.h"

#include <absl/strings/str_cat.h>

#include <cstring>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/activation.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/activation/in_place.h"
#include "ops/kernels/conv/plain.h"
#include "ops/kit/dispatch.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"
#if SNUG_HAS_ONEDNN
#include "ops/kernels/conv/onednn.h"
#include "ops/kernels/matmul/onednn_bfloat16.h"
#endif

namespace snug::core {
namespace ops::conv_add {
namespace {

enum Input { kX, kWeight, kBias, kShortcut };

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(kX, 3, 2 + kMaxSpatial));
  SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(c.options<proto::FusedConv>().conv(), c.shape(kX)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kWeight, g.weight_shape()));
  if (c.has_input(kBias)) SNUG_RETURN_IF_ERROR(c.CheckShape(kBias, Shape({g.out_channels})));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kShortcut, g.output_shape()));
  c.SetOutput(0, c.input(kX).dtype, g.output_shape(), c.input(kX).layout);
  return absl::OkStatus();
}

ConvGeometry GeometryOf(const NodeTypes& types) {  // of a node whose options inference has checked
  absl::StatusOr<ConvGeometry> g =
      MakeConvGeometry(types.options.Get<proto::FusedConv>().conv(), types.input(kX).shape);
  SNUG_CHECK_OK(g.status());
  return *g;
}

Activation ActivationOf(const NodeTypes& types) {
  return FromProto(types.options.Get<proto::FusedConv>().activation());
}

Cost ConvAddCost(const NodeTypes& types) {
  const double multiply_adds = GeometryOf(types).multiply_adds();
  return {.flops = 2 * multiply_adds, .multiply_adds = multiply_adds};
}

absl::Status RunPlain(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using Acc = Accumulator<T>;
    const T* shortcut = k.input<T>(kShortcut);
    T* y = k.output<T>(0);
    // The sums have a place of their own, so y may be the shortcut.
    T* sums = k.workspace<T>();
    PlainConv(k.threads(), GeometryOf(k.types()), k.input_type(kX), k.output_type(0), k.input<T>(kX),
              k.input<T>(kWeight), k.has_input(kBias) ? k.input<T>(kBias) : nullptr, sums);
    const int64_t count = k.output_type(0).num_elements();
    for (int64_t i = 0; i < count; ++i)
      y[i] = static_cast<T>(static_cast<Acc>(sums[i]) + static_cast<Acc>(shortcut[i]));
    ActivateInPlace(k.threads(), count, ActivationOf(k.types()), y);
    return absl::OkStatus();
  });
}

absl::Status PreparePlain(PrepareContext& c) {
  c.SetWorkspaceBytes(c.types().output(0).size_bytes());
  return absl::OkStatus();
}

#if SNUG_HAS_ONEDNN

onednn::ConvSpec SpecOf(const NodeTypes& types, int threads) {
  return {.geometry = GeometryOf(types),
          .x = types.input(kX),
          .w = types.input(kWeight),
          .y = types.output(0),
          .bias = types.has_input(kBias),
          .adds_to_y = true,
          .activation = ActivationOf(types),
          .threads = threads};
}

absl::Status PrepareOneDnn(PrepareContext& c) {
  if (onednn::ComputesInFloat32(c)) return absl::OkStatus();
  const absl::StatusOr<onednn::ConvKernel> made = onednn::MakeConv(SpecOf(c.types(), c.threads()));
  if (onednn::Declines(c, made.status())) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(made.status());
  if (made->kernel == nullptr) {
    c.WantInputLayout(kWeight, made->weights);
    return absl::OkStatus();
  }
  c.SetWorkspaceBytes(made->kernel->workspace_bytes());
  c.SetKernel(made->kernel);
  return absl::OkStatus();
}

// Only where the shortcut is read again later does it not lie where the result goes.
void BringShortcut(const KernelContext& k) {
  const char* from = k.input<char>(kShortcut);
  char* to = k.output<char>(0);
  if (from == to) return;
  constexpr int64_t kChunk = 1 << 18;
  ParallelFor(k.threads(), k.output_type(0).size_bytes(), kChunk, [=](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

absl::Status RunOneDnn(const KernelContext& k) {
  BringShortcut(k);
  const auto& kernel = k.prepared<onednn::Kernel>();
  const void* x = k.input<void>(kX);
  const void* w = k.input<void>(kWeight);
  if (!k.has_input(kBias)) return kernel.Run({x, w, k.output<void>(0)}, k.workspace());
  return kernel.Run({x, w, k.input<void>(kBias), k.output<void>(0)}, k.workspace());
}

KernelRow OneDnnRow() {
  return {.name = "onednn", .library = "oneDNN", .serves = NotInDouble, .prepare = PrepareOneDnn, .run = RunOneDnn};
}

#else

KernelRow OneDnnRow() { return {}; }  // the registry leaves out rows without `run`

#endif

void Samples(SampleBuilder& s) {
  const auto sample = [&](const char* name, const char* options) -> auto& {
    return s.Case(name).With(proto::ParseOptions<proto::FusedConv>(options)).Input({2, 5, 6, 7}).Range(-3, 3);
  };
  for (const char* activation : {"IDENTITY", "RELU", "RELU6"}) {
    sample(activation, absl::StrCat("conv { filters: 20 kernel: 1 } activation: ", activation).c_str())
        .Input({20, 5, 1, 1})
        .Input({20})
        .Input({2, 20, 6, 7});
  }
  sample("taps", "conv { filters: 3 kernel: 3 stride: 2 pad: 1 } activation: RELU")
      .Input({3, 5, 3, 3})
      .Absent()
      .Input({2, 3, 3, 4});
  s.Case("known")
      .With(proto::ParseOptions<proto::FusedConv>("conv { filters: 1 kernel: 1 } activation: RELU"))
      .Input({1, 2, 1, 2})
      .Values({1, 2, 3, 4})
      .Input({1, 2, 1, 1})
      .Values({1, 10})
      .Input({1})
      .Values({0.5})
      .Input({1, 1, 1, 2})
      .Values({100, -100})
      .Expect(0, {131.5, 0});
  sample("bad_shortcut", "conv { filters: 3 kernel: 1 }")
      .Input({3, 5, 1, 1})
      .Absent()
      .Input({2, 3, 6, 6})
      .Fails("expected shape [2, 3, 6, 7]");
}

}  // namespace
}  // namespace ops::conv_add

bool ConvolvesAndAdds([[maybe_unused]] const proto::FusedConv& options, [[maybe_unused]] const ValueType& x) {
#if SNUG_HAS_ONEDNN
  const absl::StatusOr<ops::ConvGeometry> g = ops::MakeConvGeometry(options.conv(), x.shape);
  // Of three taps and more we have faster convolutions (ops/kernels/conv/winograd.h).
  if (!g.ok() || g->taps() != 1 || x.dtype != DType::kFloat32 || !x.layout.channels_last()) return false;
  const onednn::ConvSpec spec = {.geometry = *g,
                                 .x = x,
                                 .w = {x.dtype, g->weight_shape()},
                                 .y = {x.dtype, g->output_shape(), x.layout},
                                 .adds_to_y = true,
                                 .activation = FromProto(options.activation())};
  return onednn::MakeConv(spec).ok();
#else
  return false;
#endif
}

namespace ops::conv_add {

SNUG_OPS(conv_add) {
  return {{.name = "conv_add",
           .doc = "y = activation(conv(x, w) + bias + shortcut)",
           .inputs = {{"x"}, {.name = "w", .plain_layout = true}, {.name = "bias", .optional = true}, {"shortcut"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, /*output=*/0, /*input=*/kShortcut}},
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = ConvAddCost,
           .kernels = {OneDnnRow(), {.name = "plain", .prepare = PreparePlain, .run = RunPlain}},
           .samples = Samples}};
}

}  // namespace ops::conv_add
}  // namespace snug::core
