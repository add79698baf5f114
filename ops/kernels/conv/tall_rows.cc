// The rows of gradients of weights that are products of tall matrices: of 1 x 1 taps, and of several.
#include <cstdint>
#include <optional>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/conv/product_choice.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/matmul/tall.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace {

// ---- of 1 x 1 taps ----

WhyNot WhyNotTall(const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot reason = WhyNotProduct(ConvPart::kGradWeight, types, {.geometry = g})) return reason;
  if (WhyNot reason = WhyNotInSteps(g)) return reason;
  const ProductSizes s = SizesOfProduct(ConvPart::kGradWeight, g);
  if (!IsTall(s.m, s.n, s.k)) return ByDesign("it is for many pixels and few channels");
  return std::nullopt;
}

absl::Status RunTall(const KernelContext& k, const ConvNode& node) {
  const ProductSizes s = SizesOfProduct(ConvPart::kGradWeight, node.geometry);
  WithFloatOf(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    MultiplyTall<T>(k.threads(),
                    {.m = s.m, .n = s.n, .k = s.k, .a = k.input<T>(1), .b = k.input<T>(0), .c = k.output<T>(0)},
                    k.workspace<float>());
  });
  return absl::OkStatus();
}

// ---- of several taps ----

WhyNot WhyNotPatches(const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot reason = WhyNotInFloat(types)) return reason;
  if (WhyNot reason = WhyNotByPixels(ConvPart::kGradWeight, types, g)) return reason;
  if (g.taps() == 1) return ByDesign("it is for several taps");
  if (g.dilation[static_cast<size_t>(g.spatial - 1)] != 1) return ByDesign("it wants taps side by side");
  return std::nullopt;
}

// [out, taps * in]: what the sums of a gradient are.
ProductSizes SizesOfPatches(const ConvGeometry& g) {
  ProductSizes sizes = SizesOfProduct(ConvPart::kGradWeight, g);
  sizes.n *= g.taps();
  return sizes;
}

// The library's gradients of weights are slow where a convolution goes in steps, but not those of few channels, for
// which it needs no workspace either. This is asked beside a library only.
[[maybe_unused]] bool PatchesPay(const ConvGeometry& g) {
  constexpr int64_t kManyChannels = 128, kLeastPixels = 256;
  return IsStrided(g) && SizesOfPatches(g).k >= kLeastPixels && g.in_channels >= kManyChannels;
}

absl::Status PreparePatches(PrepareContext& c, const ConvGeometry& g) {
  if (LeftToAnother(c, "patches")) return absl::OkStatus();
#if SNUG_HAS_ONEDNN
  if (c.choice().empty() && !PatchesPay(g)) {
    c.Decline(ByDesign("the library does as well"));
    return absl::OkStatus();
  }
#endif
  const ProductSizes s = SizesOfPatches(g);
  c.SetWorkspaceBytes(TallWorkspaceBytes(s.m, s.n, s.k));
  return absl::OkStatus();
}

absl::Status RunPatches(const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  const ProductSizes s = SizesOfPatches(g);
  WithFloatOf(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const Patches<T> patches(g, k.input<T>(0));
    MultiplyTall<T>(
        k.threads(),
        {.m = s.m, .n = s.n, .k = s.k, .a = k.input<T>(1), .made_b = &patches, .groups = g.taps(), .c = k.output<T>(0)},
        k.workspace<float>());
  });
  return absl::OkStatus();
}

}  // namespace

KernelRow TallConvRow(DescribeConv describe) {
  return {.name = "tall",
          .serves = [=](const NodeTypes& types) { return WhyNotTall(types, describe(types).geometry); },
          .prepare =
              [=](PrepareContext& c) {
                if (LeftToAnother(c, "tall")) return absl::OkStatus();
                const ProductSizes s = SizesOfProduct(ConvPart::kGradWeight, describe(c.types()).geometry);
                c.SetWorkspaceBytes(TallWorkspaceBytes(s.m, s.n, s.k));
                return absl::OkStatus();
              },
          .tunable = true,
          .run = [=](const KernelContext& k) { return RunTall(k, describe(k.types())); }};
}

KernelRow PatchesConvRow(DescribeConv describe) {
  return {.name = "patches",
          .serves = [=](const NodeTypes& types) { return WhyNotPatches(types, describe(types).geometry); },
          .prepare = [=](PrepareContext& c) { return PreparePatches(c, describe(c.types()).geometry); },
          .tunable = true,
          .run = [=](const KernelContext& k) { return RunPatches(k, describe(k.types())); }};
}

}  // namespace snug::core::ops
