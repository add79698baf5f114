// The row of convolutions in steps of two of few channels.
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/phases.h"
#include "ops/kernels/conv/product_choice.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace phases_row {
namespace {

// The workspace: what parts measured, the phases of x, those of the filters or of their gradient, and what Winograd's
// filtering wants.
struct Workspace {
  Workspace(ConvPart part, const ConvNode& node, DType dtype, int threads)
      : sizes(SizesOfPhases(node.geometry)),
        phases(MomentsBytes(node, WinogradMomentsBytes(sizes))),
        filters(phases + WholeLines(PhasesSize(node.geometry) * SizeOf(dtype))),
        winograd(filters + WholeLines(FilterPhasesSize(node.geometry) * SizeOf(dtype))),
        bytes(winograd + (part == ConvPart::kGradWeight ? WinogradGradWeightWorkspaceBytes(threads, sizes)
                                                        : WinogradConvWorkspaceBytes(threads, sizes, false))) {}

  WinogradSizes sizes;
  int64_t phases, filters, winograd;  // where they begin
  int64_t bytes;
};

WhyNot WhyNotPhases(ConvPart part, const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot reason = WhyNotByPixels(part, types, g)) return reason;
  if (WhyNot reason = WhyNotInFloat(types)) return reason;
  return WhyNotPhasesSizes(g);
}

absl::Status RunPhases(ConvPart part, const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  const DType dtype = k.output_type(0).dtype;
  const Workspace at(part, node, dtype, k.threads());
  char* const memory = k.workspace<char>();
  WithFloatOf(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* const phases = reinterpret_cast<T*>(memory + at.phases);
    auto* const filters = reinterpret_cast<T*>(memory + at.filters);
    void* const winograd = memory + at.winograd;
    TakePhases(k.threads(), g, k.input<T>(0), phases);
    if (part == ConvPart::kGradWeight) {
      WinogradGradWeight(k.threads(), at.sizes, phases, k.input<T>(1), filters, winograd);
      return PutBackFilterPhases(g, filters, k.output<T>(0));
    }
    TakeFilterPhases(g, k.input<T>(1), filters);
    const int64_t taps = FilterPhasesSize(g) / g.out_channels / at.sizes.in_channels;
    WinogradConv(
        k.threads(), at.sizes, phases, {.data = filters, .out_stride = at.sizes.in_channels * taps, .in_stride = taps},
        k.has_input(2) ? k.input<T>(2) : nullptr, node.activation, k.output<T>(0), winograd, MomentsOf(k, node));
  });
  return absl::OkStatus();
}

}  // namespace
}  // namespace phases_row

KernelRow PhasesConvRow(ConvPart part, DescribeConv describe) {
  return {
      .name = "phases",
      .serves = [=](const NodeTypes& types) { return phases_row::WhyNotPhases(part, types, describe(types).geometry); },
      .prepare =
          [=](PrepareContext& c) {
            if (LeftToAnother(c, "phases")) return absl::OkStatus();
            const ConvNode node = describe(c.types());
            c.SetWorkspaceBytes(phases_row::Workspace(part, node, c.types().output(0).dtype, c.threads()).bytes);
            return absl::OkStatus();
          },
      .tunable = true,
      .run = [=](const KernelContext& k) { return phases_row::RunPhases(part, k, describe(k.types())); }};
}

}  // namespace snug::core::ops
