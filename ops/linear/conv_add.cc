// conv_add: a convolution, the addition of a shortcut and an activation in one sweep. Only the pass add_in_convolution
// makes it, where the convolution is a product of all pixels, whose sums begin at the shortcut. The result may take the
// shortcut's place.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/activation.h"
#include "ops/conv_fusions.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/activation/in_place.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/conv/plain.h"
#include "ops/kit/dispatch.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

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

ConvNode NodeOf(const NodeTypes& types) {
  return {.geometry = GeometryOf(types), .activation = ActivationOf(types), .adds = true};
}

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
  s.Case("strided")  // sums of several pieces, and columns that fill no panel
      .With(proto::ParseOptions<proto::FusedConv>("conv { filters: 37 kernel: 1 stride: 2 } activation: RELU"))
      .Input({2, 300, 5, 7})
      .Input({37, 300, 1, 1})
      .Input({37})
      .Input({2, 37, 3, 4});
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

bool ConvolvesAndAdds(const proto::FusedConv& options, const ValueType& x) {
  // Of three taps and more we have faster convolutions (ops/kernels/conv/winograd/winograd.h), and where it goes in
  // steps a library's may be faster by more than the sweep that is saved.
  const absl::StatusOr<ops::ConvGeometry> g = ops::MakeConvGeometry(options.conv(), x.shape);
  return g.ok() && x.dtype == DType::kFloat32 && x.layout.channels_last() && ops::IsProductOfPixels(*g) &&
         !ops::IsStrided(*g);
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
           .kernels = {ProductConvRow(ConvPart::kForward, NodeOf),
                       {.name = "plain", .prepare = PreparePlain, .run = RunPlain}},
           .samples = Samples}};
}

}  // namespace ops::conv_add
}  // namespace snug::core
