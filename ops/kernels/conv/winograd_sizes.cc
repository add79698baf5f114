#include "ops/kernels/conv/winograd_sizes.h"

#include <algorithm>
#include <optional>

namespace snug::core::ops {
namespace {

// With fewer channels the transforms take longer than the products that they save.
constexpr int64_t kLeastChannels = 64;

// Whether it goes in steps of two pixels along both axes, with one of padding before them.
bool InWinogradSteps(const ConvGeometry& g) {
  return g.kernel[0] == 3 && g.stride[0] == 2 && g.stride[1] == 2 && g.pad_begin[0] == 1 && g.pad_begin[1] == 1 &&
         g.out[0] == (g.in[0] + 1) / 2 && g.out[1] == (g.in[1] + 1) / 2;
}

}  // namespace

WhyNot WhyNotWinogradSizes(const ConvGeometry& g) {
  const bool square = g.kernel[0] == g.kernel[1] && (g.kernel[0] == 3 || g.kernel[0] == 5);
  if (g.spatial != 2 || !square || g.dilation[0] != 1 || g.dilation[1] != 1) {
    return ByDesign("it is for 3 x 3 and 5 x 5 taps");
  }
  if (IsStrided(g) && !InWinogradSteps(g)) {
    return ByDesign("it goes in steps of 1, or, of 3 x 3 taps, of 2 with a pixel of padding");
  }
  if (g.in_channels % kWinogradChannels != 0 || g.out_channels % kWinogradChannels != 0) {
    return ByDesign("it wants channels by sixteen");
  }
  if (std::min(g.in_channels, g.out_channels) < kLeastChannels) return ByDesign("it pays from 64 channels on");
  return std::nullopt;
}

WinogradSizes WinogradSizesOf(ConvPart part, const ConvGeometry& g) {
  const bool in_steps = IsStrided(g);
  const WinogradKind kind = in_steps           ? WinogradKind::kInSteps
                            : g.kernel[0] == 5 ? WinogradKind::kFiveTaps
                                               : WinogradKind::kPlain;
  const WinogradSizes forward = {.kind = kind,
                                 .batch = g.batch,
                                 .in_height = g.in[0],
                                 .in_width = g.in[1],
                                 .in_channels = g.in_channels,
                                 .out_height = g.out[0],
                                 .out_width = g.out[1],
                                 .out_channels = g.out_channels,
                                 .pad_top = g.pad_begin[0],
                                 .pad_left = g.pad_begin[1]};
  if (part != ConvPart::kGradInput) return forward;
  return {.kind = in_steps ? WinogradKind::kBetweenSteps : kind,
          .batch = g.batch,
          .in_height = forward.out_height,
          .in_width = forward.out_width,
          .in_channels = forward.out_channels,
          .out_height = forward.in_height,
          .out_width = forward.in_width,
          .out_channels = forward.in_channels,
          .pad_top = g.kernel[0] - 1 - forward.pad_top,
          .pad_left = g.kernel[1] - 1 - forward.pad_left};
}

}  // namespace snug::core::ops
