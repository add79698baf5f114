// The row of convolutions by Winograd's filtering.
#include <cstdint>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/conv/winograd_sizes.h"
#include "ops/prepare_context.h"
#if SNUG_HAS_ONEDNN
#include "ops/kit/onednn.h"
#endif

namespace snug::core::ops {
namespace {

WhyNot WhyNotWinograd(ConvPart part, const NodeTypes& types, const ConvGeometry& g) {
#if SNUG_HAS_ONEDNN
  // Twice float's rate is no more than what Winograd's filtering saves, but more than what it saves in steps.
  if (types.output(0).dtype == DType::kBFloat16) {
    if (onednn::HasAmx()) {
      return ByDesign("it multiplies in float, and this processor has a unit for products of bfloat16");
    }
    if (IsStrided(g) && onednn::MultipliesBFloat16()) {
      return ByDesign("in steps it saves less than this processor's products of bfloat16");
    }
  }
#endif
  if (WhyNot reason = WhyNotByPixels(part, types, g)) return reason;
  return WhyNotWinogradSizes(g);
}

// With kept filters a product for each tap takes less time where there are few tiles: it reads a quarter of the bytes,
// which come from memory as a rule.
constexpr int64_t kLeastTilesKept = 8;
// In steps filters have 81 products, so of few tiles their transforms take longer than is saved.
constexpr int64_t kLeastTilesInSteps = SNUG_HAS_ONEDNN ? 12 : 1;

int64_t TilesOf(const WinogradSizes& s) {
  const int64_t tile = WinogradTile(s.kind);
  return s.batch * Parts(s.out_height, tile) * Parts(s.out_width, tile);
}

int64_t MomentsBytesOfWinograd(const ConvNode& node) {
  return MomentsBytes(node, WinogradMomentsBytes(WinogradSizesOf(ConvPart::kForward, node.geometry)));
}

void PrepareWinograd(PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (LeftToAnother(c, "winograd")) return;
  const ConvGeometry& g = node.geometry;
  const WinogradSizes sizes = WinogradSizesOf(part, g);
  if (c.choice().empty() && IsStrided(g) && !node.measures &&
      TilesOf(WinogradSizesOf(ConvPart::kForward, g)) < kLeastTilesInSteps) {
    return c.Decline(ByDesign("in steps it pays from 12 tiles on"));
  }
  const bool transformed = part == ConvPart::kForward && IsWinograd(c.types().input(1).layout);
  if (part == ConvPart::kForward && !transformed && c.kept(1)) {
    if (c.choice().empty()) {
      if (IsStrided(g)) return c.Decline(ByDesign("kept filters of steps take nine times the weights' bytes"));
      if (TilesOf(sizes) < kLeastTilesKept) return c.Decline(ByDesign("a product for each tap pays"));
    }
    return c.WantInputLayout(1, WinogradLayout(sizes.kind, g.out_channels, g.in_channels));
  }
  c.SetWorkspaceBytes(part == ConvPart::kGradWeight
                          ? WinogradGradWeightWorkspaceBytes(c.threads(), sizes)
                          : MomentsBytesOfWinograd(node) + WinogradConvWorkspaceBytes(c.threads(), sizes, transformed));
}

absl::Status RunWinograd(ConvPart part, const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  const WinogradSizes sizes = WinogradSizesOf(part, g);
  WithFloatOf(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (part == ConvPart::kGradWeight) {
      WinogradGradWeight(k.threads(), sizes, k.input<T>(0), k.input<T>(1), k.output<T>(0), k.workspace<void>());
      return;
    }
    WinogradFilters<T> filters = WinogradFiltersOf(part, g, k.input<T>(1));
    if (IsWinograd(k.input_type(1).layout)) filters.transformed = k.input<float>(1);
    const bool has_bias = part == ConvPart::kForward && k.has_input(2);
    WinogradConv(k.threads(), sizes, k.input<T>(0), filters, has_bias ? k.input<T>(2) : nullptr, node.activation,
                 k.output<T>(0), k.workspace<char>() + MomentsBytesOfWinograd(node), MomentsOf(k, node));
  });
  return absl::OkStatus();
}

}  // namespace

KernelRow WinogradConvRow(ConvPart part, DescribeConv describe) {
  return {.name = "winograd",
          .serves = [=](const NodeTypes& types) { return WhyNotWinograd(part, types, describe(types).geometry); },
          .prepare =
              [=](PrepareContext& c) {
                PrepareWinograd(c, part, describe(c.types()));
                return absl::OkStatus();
              },
          .tunable = true,
          .run = [=](const KernelContext& k) { return RunWinograd(part, k, describe(k.types())); }};
}

}  // namespace snug::core::ops
