#include "ops/kernels/conv/cuda_depthwise.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kit/cuda/threads.h"
#include "ops/kit/library_variant.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace {

constexpr absl::string_view kRowName = "depthwise";

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The sizes, if the row has a kernel for them: threads have whole packs of channels, and an offset within a sample fits
// in 31 bits.
std::optional<DepthwiseSizes> SizesOf(const ConvGeometry& g, const ValueType& x, const ValueType& y) {
  const bool depthwise = g.groups == g.in_channels && g.out_channels == g.in_channels && g.spatial == 2;
  const bool taps = g.kernel[0] == 3 && g.kernel[1] == 3 && g.dilation[0] == 1 && g.dilation[1] == 1;
  const bool pads = std::max(g.pad_begin[0], g.pad_begin[1]) <= 2;
  if (!depthwise || !taps || !pads) return std::nullopt;
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kBFloat16) return std::nullopt;
  if (!x.layout.channels_last() || !y.layout.channels_last()) return std::nullopt;
  if (g.in_channels % DepthwiseParts::kChannels != 0) return std::nullopt;
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t largest = std::max(g.in[0] * g.in[1], g.out[0] * g.out[1]) * g.in_channels;
  if (largest >= kMost || largest == 0 || g.batch == 0) return std::nullopt;
  return DepthwiseSizes{.batch = g.batch,
                        .channels = g.in_channels,
                        .in_height = static_cast<int>(g.in[0]),
                        .in_width = static_cast<int>(g.in[1]),
                        .out_height = static_cast<int>(g.out[0]),
                        .out_width = static_cast<int>(g.out[1]),
                        .pad_height = static_cast<int>(g.pad_begin[0]),
                        .pad_width = static_cast<int>(g.pad_begin[1])};
}

// Where the row pays. Of larger planes the library's gradient of the weights reads faster.
std::optional<DepthwiseSizes> SizesOf(const NodeTypes& t, ConvPart part, const ConvGeometry& g) {
  constexpr int64_t kSmallPlane = 64;  // pixels
  const bool in_steps = g.stride[0] == 2 && g.stride[1] == 2;
  const bool small = g.stride[0] == 1 && g.stride[1] == 1 && g.in[0] * g.in[1] <= kSmallPlane;
  if (part == ConvPart::kGradInput && in_steps) return SizesOf(g, t.output(0), t.input(0));
  if (part == ConvPart::kGradWeight && small) return SizesOf(g, t.input(0), t.input(1));
  return std::nullopt;
}

}  // namespace

DepthwiseParts::DepthwiseParts(const DepthwiseSizes& sizes)
    : channels(sizes.channels), runs(sizes.batch * sizes.out_height * DivideUp(sizes.out_width, kRun)) {
  constexpr int64_t kMostAcross = 32;
  constexpr int64_t kEnoughBlocks = 528;  // two on each processor of a large device, twice
  constexpr int64_t kLeastRuns = 4;       // of a thread
  const int64_t packs = channels / kChannels;
  // The widest tile that divides the packs, so that no thread idles; where only narrow ones do, the last tile is not
  // full.
  int64_t widest = 1;
  for (int64_t width = 1; width <= std::min(packs, kMostAcross); ++width) {
    if (packs % width == 0) widest = width;
  }
  if (widest < 8) widest = std::min(packs, kMostAcross);
  across = static_cast<int>(widest);
  down = kCudaThreads / across;
  tiles = DivideUp(packs, across);
  parts = std::clamp<int64_t>(std::min(DivideUp(kEnoughBlocks, tiles), runs / (down * kLeastRuns)), 1, 65535);
}

KernelRow DepthwiseCudaRow(ConvPart part, DescribeConv describe) {
  return {.device = kOnCuda,
          .name = kRowName,
          .serves = [part, describe](const NodeTypes& types) -> std::optional<NotServed> {
            if (SizesOf(types, part, describe(types).geometry).has_value()) return std::nullopt;
            return ByDesign(
                "it is for gradients of depthwise convolutions of 3 x 3 taps: of x in steps of 2, of weights "
                "over small planes");
          },
          .prepare = [part, describe](PrepareContext& c) -> absl::Status {
            if (!c.choice().empty() && c.choice() != kRowName) {
              c.Decline(ByDesign("a tuning names another kernel"));
              return absl::OkStatus();
            }
            const DepthwiseSizes sizes = *SizesOf(c.types(), part, describe(c.types()).geometry);
            if (part == ConvPart::kGradWeight) c.SetWorkspaceBytes(DepthwiseParts(sizes).WorkspaceBytes());
            c.SetVariant(std::string(kRowName));
            c.SetKernel(std::make_shared<DepthwiseSizes>(sizes));
            return absl::OkStatus();
          },
          .variants = [part](const PrepareContext& c) -> absl::StatusOr<std::vector<std::string>> {
            std::vector<std::string> names = OtherLibraryVariants(c, part != ConvPart::kForward);
            names.insert(names.begin(), LicensedLibraryVariant(c, part != ConvPart::kForward));
            return names;
          },
          .run = [part](const KernelContext& k) -> absl::Status {
            const auto& sizes = k.prepared<DepthwiseSizes>();
            return part == ConvPart::kGradInput ? DepthwiseGradInputCuda(k, sizes) : DepthwiseGradWeightCuda(k, sizes);
          }};
}

}  // namespace snug::core::ops
