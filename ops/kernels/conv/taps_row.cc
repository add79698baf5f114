// The row of convolutions with kept weights as products: for each tap the pixels that it takes, where they are, times
// its weights, which are added up in registers.
#include <algorithm>
#include <cstdint>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/conv/product_choice.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace taps_row {
namespace {

PanelsShape PanelsOfTaps(const ConvGeometry& g) {
  return {.n = g.out_channels, .k = g.taps() * g.in_channels, .transposed = true, .parts = g.taps()};
}

WhyNot WhyNotTaps(const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot reason = WhyNotByPixels(ConvPart::kForward, types, g)) return reason;
  if (WhyNot reason = WhyNotInFloat(types)) return reason;
  if (IsProductOfPixels(g)) return ByDesign("it is for several taps");
  return std::nullopt;
}

absl::Status PrepareTaps(PrepareContext& c, const ConvNode& node) {
  if (LeftToAnother(c, "taps")) return absl::OkStatus();
  const ConvGeometry& g = node.geometry;
  if (!IsPanels(c.types().input(1).layout)) {
    if (c.choice().empty() && !TapsPay(g)) {
      c.Decline(ByDesign("the library does as well"));
    } else if (!c.kept(1)) {
      c.Decline(ByDesign("it is for weights that stay as they are"));
    } else {
      c.WantInputLayout(1, PanelsLayout(PanelsOfTaps(g)));
    }
    return absl::OkStatus();
  }
  c.SetWorkspaceBytes(WholeLines(g.in_channels * SizeOf(c.types().output(0).dtype)));  // of a pixel of padding
  return absl::OkStatus();
}

absl::Status RunTaps(const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  WithFloatOf(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const padding = k.workspace<T>();
    std::fill_n(padding, g.in_channels, T());
    const TakenPixels<T> pixels(g, k.input<T>(0), padding);
    MultiplyByPanels<T>(k.threads(), {.m = g.batch * g.out[0] * g.out[1] * g.out[2],
                                      .n = g.out_channels,
                                      .k = g.taps() * g.in_channels,
                                      .scattered_a = &pixels,
                                      .parts = g.taps(),
                                      .panels = k.input<float>(1),
                                      .bias = k.has_input(2) ? k.input<T>(2) : nullptr,
                                      .activation = node.activation,
                                      .c = k.output<T>(0)});
  });
  return absl::OkStatus();
}

}  // namespace
}  // namespace taps_row

KernelRow TapsConvRow(DescribeConv describe) {
  return {.name = "taps",
          .kept_input = [](const NodeTypes& /*types*/) { return 1; },
          .serves = [=](const NodeTypes& types) { return taps_row::WhyNotTaps(types, describe(types).geometry); },
          .prepare = [=](PrepareContext& c) { return taps_row::PrepareTaps(c, describe(c.types())); },
          .tunable = true,
          .run = [=](const KernelContext& k) { return taps_row::RunTaps(k, describe(k.types())); }};
}

}  // namespace snug::core::ops
