// The row of convolutions of each channel alone.
#include <cstdint>
#include <optional>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/depthwise/depthwise.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace {

WhyNot WhyNotDepthwise(ConvPart part, const NodeTypes& types, const ConvNode& node) {
  if (WhyNot in_double = NotInDouble(types)) return in_double;
  if (WhyNot reason = WhyNotDepthwiseSizes(node.geometry)) return reason;
  if (WhyNot reason = WhyNotChannelsLast(part, types)) return reason;
  if (node.sums && types.has_input(kSumsDy2)) return ByDesign("it adds nothing to what it sums");
  if (node.activation == Activation::kSigmoid || node.activation == Activation::kTanh) {
    return ByDesign("it knows relu and relu6 only");
  }
  return std::nullopt;
}

// What parts leave in the workspace's first lines, for the statistics or sums that a node takes.
int64_t PartsBytesOfDepthwise(const ConvNode& node, DType dtype) {
  return WithFloatOf(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (node.sums) return WholeLines(DepthwiseNormBytes<T>(node.geometry));
    return MomentsBytes(node, DepthwiseMomentsBytes<T>(node.geometry));
  });
}

absl::Status RunDepthwise(ConvPart part, const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  const DType dtype = k.output_type(0).dtype;
  auto* const workspace = reinterpret_cast<float*>(k.workspace<char>() + PartsBytesOfDepthwise(node, dtype));
  WithFloatOf(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *first = k.input<T>(0), *second = k.input<T>(1);
    T* to = k.output<T>(0);
    switch (part) {
      case ConvPart::kForward:
        return DepthwiseConv(k.threads(), g, first, second, k.has_input(2) ? k.input<T>(2) : nullptr, node.activation,
                             to, workspace, MomentsOf(k, node));
      case ConvPart::kGradInput:
        return DepthwiseGradInput(k.threads(), g, first, second, to, workspace, NormOf<T>(k, node));
      case ConvPart::kGradWeight:
        return DepthwiseGradWeight(k.threads(), g, first, second, to, workspace);
    }
  });
  return absl::OkStatus();
}

}  // namespace

std::optional<NotServed> WhyNotDepthwiseSizes(const ConvGeometry& g) {
  if (g.groups != g.in_channels || g.groups != g.out_channels) return ByDesign("it is for depthwise convolutions");
  if (g.spatial != 2 || g.kernel[0] > kMostDepthwiseLines || !HasDepthwiseTaps(g.kernel[1]) || g.dilation[0] != 1 ||
      g.dilation[1] != 1) {
    return ByDesign("it is for 3 x 3 and 5 x 5 taps");
  }
  if (g.in_channels < kLeastDepthwiseChannels) return ByDesign("its channels have to fill a vector");
  return std::nullopt;
}

KernelRow DepthwiseConvRow(ConvPart part, DescribeConv describe) {
  return {.name = "depthwise",
          .serves = [=](const NodeTypes& types) { return WhyNotDepthwise(part, types, describe(types)); },
          .prepare =
              [=](PrepareContext& c) {
                if (LeftToAnother(c, "depthwise")) return absl::OkStatus();
                const ConvNode node = describe(c.types());
                const ConvGeometry& g = node.geometry;
                c.SetWorkspaceBytes(part == ConvPart::kGradWeight
                                        ? DepthwiseGradWeightWorkspaceBytes(g)
                                        : PartsBytesOfDepthwise(node, c.types().output(0).dtype) +
                                              DepthwiseWorkspaceBytes(g));
                return absl::OkStatus();
              },
          .tunable = true,
          .run = [=](const KernelContext& k) { return RunDepthwise(part, k, describe(k.types())); }};
}

}  // namespace snug::core::ops
