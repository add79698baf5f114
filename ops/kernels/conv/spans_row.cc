// The row of convolutions of few channels or filters by spans (spans/spans.h).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/conv/spans/spans.h"
#include "ops/prepare_context.h"
#if SNUG_HAS_ONEDNN
#include "ops/kit/isa.h"
#include "ops/kit/onednn.h"
#endif

namespace snug::core::ops {
namespace spans_row {
namespace {

DType TypeOfWeights(ConvPart part, const NodeTypes& types) {
  return part == ConvPart::kGradWeight ? types.output(0).dtype : types.input(1).dtype;
}

WhyNot WhyNotSpans(ConvPart part, const NodeTypes& types, const ConvNode& node) {
  if (WhyNot in_double = NotInDouble(types)) return in_double;
  if (node.adds || node.measures || node.sums) return ByDesign("it adds and measures nothing");
  if (WhyNot reason = WhyNotChannelsLast(part, types)) return reason;
  return WhyNotSpansSizes(node.geometry);
}

#if SNUG_HAS_ONEDNN

// As measured (docs/benchmarks/convolutions.md, "Few channels by spans"). The library fills vectors with channels or
// with filters, so few of them leave these nearly empty: above all where few channels are what it computes, as in the
// gradient of data.

bool BeatTiles(ConvPart part, const ConvGeometry& g) {
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
  return channels * filters <= 256 && (channels <= 2 || (channels <= 6 && channels * g.out[1] <= 100));
}

// Where vectors have products of bfloat16, which spans have not.
bool BeatVectorsOfBFloat16(ConvPart part, const ConvGeometry& g) {
  switch (part) {
    case ConvPart::kForward:
      return g.in_channels == 1 && g.out_channels <= 8;
    case ConvPart::kGradInput:
      return g.in_channels <= 3;
    case ConvPart::kGradWeight:
      break;
  }
  return false;
}

// Images of bfloat16 are cast for the library, so it is slower there.
bool BeatVectors(ConvPart part, const ConvGeometry& g, bool cast) {
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

bool BeatLibrary(ConvPart part, DType dtype, const ConvGeometry& g) {
  const bool narrow = dtype == DType::kBFloat16;
  if (narrow && onednn::HasAmx()) return BeatTiles(part, g);
  if (narrow && onednn::MultipliesBFloat16()) return BeatVectorsOfBFloat16(part, g);
  return BeatVectors(part, g, narrow);
}

#else

// For more channels patches and products are as good.
bool BeatLibrary(ConvPart /*part*/, DType /*dtype*/, const ConvGeometry& g) {
  constexpr int64_t kFew = 16;
  return std::min(g.in_channels, g.out_channels) <= kFew;
}

#endif

// The number of threads is not asked, because bits would depend on it.
WhyNot WhyLeft(ConvPart part, DType dtype, const ConvGeometry& g) {
  constexpr int64_t kLeastPixels = 512, kLeastImages = 8;
  if (g.batch * g.out[0] * g.out[1] < kLeastPixels) return ByDesign("it packs weights, which pays from 512 pixels on");
  if (part == ConvPart::kGradWeight && g.batch < kLeastImages) return ByDesign("it takes 8 images or more");
  if (!BeatLibrary(part, dtype, g)) return ByDesign("others do as well");
  return std::nullopt;
}

// Says whether weights, a bias and the gradient of weights are all of the images' type, or all float32.
bool TakesTypes(ConvPart part, const NodeTypes& types) {
  const DType images = types.input(0).dtype, weights = TypeOfWeights(part, types);
  const auto are_images = [=](const ValueType& type) { return type.dtype == images; };
  if (weights != images && weights != DType::kFloat32) return false;
  if (part == ConvPart::kGradWeight) return are_images(types.input(1));
  return are_images(types.output(0)) && (!types.has_input(2) || types.input(2).dtype == weights);
}

absl::Status PrepareSpans(PrepareContext& c, ConvPart part, const ConvNode& node) {
  if (LeftToAnother(c, "spans")) return absl::OkStatus();
  if (c.choice().empty()) {
    if (WhyNot reason = WhyLeft(part, c.types().input(0).dtype, node.geometry)) {
      c.Decline(*std::move(reason));
      return absl::OkStatus();
    }
  }
  if (c.types().input(0).dtype == DType::kBFloat16 && !c.unrounded()) {
    c.WantUnrounded();
  } else if (!TakesTypes(part, c.types())) {
    c.WantFloat32();
  } else {
    c.SetWorkspaceBytes(SpansWorkspaceBytes(part, node.geometry));
  }
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
  WithFloatOf(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (TypeOfWeights(part, k.types()) == DType::kFloat32) {
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
