// The row of convolutions of few channels by spans (spans/spans.h).
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/conv/spans/spans.h"
#include "ops/kit/isa.h"
#include "ops/prepare_context.h"
#if SNUG_HAS_ONEDNN
#include "ops/kit/onednn.h"
#endif

namespace snug::core::ops {
namespace spans_row {
namespace {

WhyNot WhyNotSpans(ConvPart part, const NodeTypes& types, const ConvNode& node) {
  if (WhyNot in_double = NotInDouble(types)) return in_double;
  if (node.adds || node.measures || node.sums) return ByDesign("it does nothing besides");
  if (WhyNot reason = WhyNotChannelsLast(part, types)) return reason;
  return WhyNotSpansSizes(node.geometry);
}

#if SNUG_HAS_ONEDNN

// As measured (docs/benchmarks/convolutions.md, "Few channels by spans"). The library computes channels and filters by
// vectors, so few of them leave these nearly empty: above all where few channels are what it computes, as in the
// gradient of data.

bool PaysOnTiles(ConvPart part, const ConvGeometry& g) {
  const int64_t channels = g.in_channels, filters = g.out_channels;
  switch (part) {
    case ConvPart::kForward:
      return channels == 1 && filters <= 8;
    case ConvPart::kGradInput:
      return channels <= 3 && filters <= 8;
    case ConvPart::kGradWeight:
      break;
  }
  // A tile takes pixels of a line, and channels of both images.
  if (IsStrided(g)) return channels <= 4 && filters <= 32 && g.taps() <= 25;
  return channels * filters <= 256 && (channels <= 3 || (channels <= 6 && channels * g.out[1] <= 100));
}

// Images of bfloat16 are cast for the library, so it is slower there.
bool PaysOnVectors(ConvPart part, const ConvGeometry& g, bool cast) {
  const int64_t channels = g.in_channels, filters = g.out_channels;
  const Isa isa = CurrentIsa();
  switch (part) {
    case ConvPart::kForward:
      if (filters <= 8) return true;
      if (isa == Isa::kAvx512) return cast ? channels <= 12 : channels == 1 && filters <= 32;
      return (filters <= 16 && channels >= 4) || (isa == Isa::kBaseline && channels == 1);
    case ConvPart::kGradInput:
      return channels <= 6 && filters >= 4 && (isa == Isa::kAvx512 || filters <= 32);
    case ConvPart::kGradWeight:
      break;
  }
  if (isa == Isa::kAvx512) return cast && channels <= 12;
  return channels <= (isa == Isa::kAvx2 ? 3 : 12);
}

bool Pays(ConvPart part, const NodeTypes& types, const ConvGeometry& g) {
  constexpr int64_t kLeastPixels = 2048;  // the weights are packed in each step
  constexpr int64_t kLeastImages = 8;     // gradients of weights are made by images
  if (g.batch * g.out[0] * g.out[1] < kLeastPixels) return false;
  if (part == ConvPart::kGradWeight && g.batch < kLeastImages) return false;
  const bool narrow = types.input(0).dtype == DType::kBFloat16;
  if (narrow && onednn::HasAmx()) return PaysOnTiles(part, g);
  return !(narrow && onednn::MultipliesBFloat16()) && PaysOnVectors(part, g, narrow);
}

#else

bool Pays(ConvPart /*part*/, const NodeTypes& /*types*/, const ConvGeometry& /*g*/) { return true; }

#endif

absl::Status PrepareSpans(PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (LeftToAnother(c, "spans")) return absl::OkStatus();
  if (c.choice().empty() && !Pays(part, c.types(), node.geometry)) {
    c.Decline(ByDesign("the library does as well"));
    return absl::OkStatus();
  }
  if (c.types().input(0).dtype == DType::kBFloat16 && !c.unrounded()) {
    c.WantUnrounded();
    return absl::OkStatus();
  }
  c.SetWorkspaceBytes(SpansWorkspaceBytes(part, node.geometry));
  return absl::OkStatus();
}

template <class T, class W>
void Run(ConvPart part, const KernelContext& k, const ConvNode& node) {
  const ConvGeometry& g = node.geometry;
  auto* const workspace = k.workspace<float>();
  switch (part) {
    case ConvPart::kForward:
      return SpansConv(k.threads(), g, k.input<T>(0), k.input<W>(1), k.has_input(2) ? k.input<W>(2) : nullptr,
                       node.activation, k.output<T>(0), workspace);
    case ConvPart::kGradInput:
      return SpansGradInput(k.threads(), g, k.input<T>(0), k.input<W>(1), k.output<T>(0), workspace);
    case ConvPart::kGradWeight:
      return SpansGradWeight(k.threads(), g, k.input<T>(0), k.input<T>(1), k.output<W>(0), workspace);
  }
}

absl::Status RunSpans(ConvPart part, const KernelContext& k, const ConvNode& node) {
  const DType weights = part == ConvPart::kGradWeight ? k.output_type(0).dtype : k.input_type(1).dtype;
  WithFloatOf(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (weights == DType::kFloat32) {
      Run<T, float>(part, k, node);
    } else {
      Run<T, T>(part, k, node);
    }
  });
  return absl::OkStatus();
}

}  // namespace
}  // namespace spans_row

KernelRow SpansConvRow(ConvPart part, DescribeConv describe) {
  return {.name = "spans",
          .serves = [=](const NodeTypes& types) { return spans_row::WhyNotSpans(part, types, describe(types)); },
          .prepare = [=](PrepareContext& c) { return spans_row::PrepareSpans(c, part, describe(c.types())); },
          .tunable = true,
          .run = [=](const KernelContext& k) { return spans_row::RunSpans(part, k, describe(k.types())); }};
}

}  // namespace snug::core::ops
