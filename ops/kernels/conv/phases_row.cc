// The row of convolutions of few channels with large taps in steps of two to four (phases.h).
#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/own_rows.h"
#include "ops/kernels/conv/phases.h"
#include "ops/kernels/conv/product_choice.h"
#include "ops/kernels/conv/row_parts.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace phases_row {
namespace {

// A forward convolution takes the phases of a few images at a time, which are enough work for all threads: so the
// phases of a batch are never there together. What is measured or added up over a batch has them all.
constexpr int64_t kResultsOfThread = 4'000;
int64_t ImagesAtOnce(ConvPart part, const ConvNode& node, int threads) {
  const ConvGeometry& g = node.geometry;
  if (part == ConvPart::kGradWeight || node.measures) return g.batch;
  return std::min(g.batch, Parts(kResultsOfThread * threads, g.out[0] * g.out[1]));
}

ConvGeometry OfImages(ConvGeometry g, int64_t images) {
  g.batch = images;
  return g;
}

int64_t WinogradBytes(ConvPart part, const ConvGeometry& g, int threads) {
  const WinogradSizes sizes = SizesOfPhases(g);
  return part == ConvPart::kGradWeight ? WinogradGradWeightWorkspaceBytes(threads, sizes)
                                       : WinogradConvWorkspaceBytes(threads, sizes, /*transformed=*/false);
}

// The workspace: what parts measured, the phases of x, those of the filters or of their gradient, and what Winograd's
// filtering wants.
struct Workspace {
  Workspace(ConvPart part, const ConvNode& node, DType dtype, int threads) : images(ImagesAtOnce(part, node, threads)) {
    const ConvGeometry some = OfImages(node.geometry, images);
    phases = MomentsBytes(node, WinogradMomentsBytes(SizesOfPhases(node.geometry)));
    filters = phases + WholeLines(PhasesSize(some) * SizeOf(dtype));
    winograd = filters + WholeLines(FilterPhasesSize(some) * SizeOf(dtype));
    bytes = winograd + WinogradBytes(part, some, threads);
    // Fewer images may be cut into larger blocks.
    if (const int64_t rest = node.geometry.batch % images; rest > 0) {
      bytes = std::max(bytes, winograd + WinogradBytes(part, OfImages(node.geometry, rest), threads));
    }
  }

  int64_t images;                     // at a time
  int64_t phases, filters, winograd;  // where they begin
  int64_t bytes;
};

WhyNot WhyNotPhases(ConvPart part, const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot reason = WhyNotByPixels(part, types, g)) return reason;
  if (WhyNot reason = WhyNotInFloat(types)) return reason;
  return WhyNotPhasesSizes(g);
}

template <class T>
void Convolve(const KernelContext& k, const ConvNode& node, const Workspace& at) {
  const ConvGeometry& g = node.geometry;
  char* const memory = k.workspace<char>();
  auto* const phases = reinterpret_cast<T*>(memory + at.phases);
  auto* const filters = reinterpret_cast<T*>(memory + at.filters);
  TakeFilterPhases(g, k.input<T>(1), filters);
  const WinogradSizes sizes = SizesOfPhases(g);
  const int64_t taps = WinogradTaps(sizes.kind);
  const WinogradFilters<T> given = {.data = filters, .out_stride = sizes.in_channels * taps, .in_stride = taps};
  const T* const bias = k.has_input(2) ? k.input<T>(2) : nullptr;
  const int64_t x_image = g.in[0] * g.in[1] * g.in_channels, y_image = g.out[0] * g.out[1] * g.out_channels;
  for (int64_t image = 0; image < g.batch; image += at.images) {
    const ConvGeometry some = OfImages(g, std::min(at.images, g.batch - image));
    TakePhases(k.threads(), some, k.input<T>(0) + image * x_image, phases);
    WinogradConv(k.threads(), SizesOfPhases(some), phases, given, bias, node.activation,
                 k.output<T>(0) + image * y_image, memory + at.winograd, MomentsOf(k, node));
  }
}

template <class T>
void GradWeight(const KernelContext& k, const ConvGeometry& g, const Workspace& at) {
  char* const memory = k.workspace<char>();
  auto* const phases = reinterpret_cast<T*>(memory + at.phases);
  auto* const filters = reinterpret_cast<T*>(memory + at.filters);
  TakePhases(k.threads(), g, k.input<T>(0), phases);
  WinogradGradWeight(k.threads(), SizesOfPhases(g), phases, k.input<T>(1), filters, memory + at.winograd);
  PutBackFilterPhases(g, filters, k.output<T>(0));
}

absl::Status RunPhases(ConvPart part, const KernelContext& k, const ConvNode& node) {
  const DType dtype = k.output_type(0).dtype;
  const Workspace at(part, node, dtype, k.threads());
  WithFloatOf(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (part == ConvPart::kGradWeight) return GradWeight<T>(k, node.geometry, at);
    Convolve<T>(k, node, at);
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
