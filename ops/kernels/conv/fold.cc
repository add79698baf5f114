#include "ops/kernels/conv/fold.h"

#include <algorithm>
#include <limits>

namespace snug::core::ops {
namespace {

constexpr int64_t kMostFoldedChannels = 4;
constexpr int64_t kMostStridesAcross = 4;
constexpr int64_t kFoldUnit = 8;  // 16 bytes
constexpr int64_t kMostFoldedNumbers = std::numeric_limits<int32_t>::max();

int64_t FoldRounded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

bool IsWorthFolding(const ConvGeometry& g) {
  if (g.spatial != 2 || g.groups != 1 || g.in_channels > kMostFoldedChannels) return false;
  for (const size_t axis : {0, 1}) {
    if (g.stride[axis] < 2 || g.dilation[axis] != 1 || g.kernel[axis] < g.stride[axis]) return false;
  }
  return g.kernel[1] <= kMostStridesAcross * g.stride[1];
}

// Returns how many pixels of a row a block can make, or 0 if it has no room for one.
int64_t FoldBlockColumns(const ConvGeometry& g, int64_t columns) {
  const int64_t pitch = kFoldBlockNumbers / g.stride[0] / kFoldUnit * kFoldUnit;
  const int64_t room = pitch - (kFoldUnit - 1) - columns * g.in_channels;
  return room < 0 ? 0 : std::min(g.out[1], room / (g.stride[1] * g.in_channels) + 1);
}

}  // namespace

std::optional<ConvFold> FoldOf(const ConvGeometry& g) {
  if (!IsWorthFolding(g)) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 16;  // no sum or product of a few sizes overflows
  for (const size_t axis : {0, 1}) {
    for (const int64_t size : {g.in[axis], g.out[axis], g.kernel[axis], g.pad_begin[axis], g.pad_end[axis]}) {
      if (size > kMost) return std::nullopt;
    }
  }
  const int64_t columns = FoldRounded(g.kernel[1], g.stride[1]);
  // Windows that begin at whole strides of x can be read in larger units. Where a window has columns to spare for it,
  // they do.
  const int64_t lead = (g.stride[1] - g.pad_begin[1] % g.stride[1]) % g.stride[1];
  const int64_t block_columns = FoldBlockColumns(g, columns);
  if (block_columns < 1) return std::nullopt;
  const int64_t taps = (g.kernel[0] + g.stride[0] - 1) / g.stride[0];
  const int64_t folded_channels = FoldRounded(g.stride[0] * columns * g.in_channels, kFoldUnit);
  const int64_t folded_height = g.out[0] + taps - 1;
  // Doubles do not overflow, and are exact far beyond the limit.
  const double data = static_cast<double>(g.batch) * static_cast<double>(folded_height) *
                      static_cast<double>(g.out[1]) * static_cast<double>(folded_channels);
  const double weights =
      static_cast<double>(g.out_channels) * static_cast<double>(taps) * static_cast<double>(folded_channels);
  constexpr int64_t kMostBlocksAcross = 65535;
  if (std::max(data, weights) > static_cast<double>(kMostFoldedNumbers) ||
      g.out[1] > block_columns * kMostBlocksAcross) {
    return std::nullopt;
  }
  const auto narrow = [](int64_t number) { return static_cast<int32_t>(number); };
  ConvFold fold;
  fold.height = narrow(g.in[0]);
  fold.width = narrow(g.in[1]);
  fold.channels = narrow(g.in_channels);
  fold.filters = narrow(g.out_channels);
  fold.kernel_rows = narrow(g.kernel[0]);
  fold.kernel_columns = narrow(g.kernel[1]);
  fold.row_stride = narrow(g.stride[0]);
  fold.column_stride = narrow(g.stride[1]);
  fold.pad_top = narrow(g.pad_begin[0]);
  fold.batch = narrow(g.batch);
  fold.folded_height = narrow(folded_height);
  fold.folded_width = narrow(g.out[1]);
  fold.columns = narrow(columns);
  fold.lead = narrow(lead <= columns - g.kernel[1] ? lead : 0);
  fold.pad_left = narrow(g.pad_begin[1]) + fold.lead;
  fold.taps = narrow(taps);
  fold.folded_channels = narrow(folded_channels);
  fold.block_columns = narrow(block_columns);
  return fold;
}

ConvGeometry FoldedGeometry(const ConvFold& fold) {
  ConvGeometry g;
  g.spatial = 2;
  g.batch = fold.batch;
  g.in_channels = fold.folded_channels;
  g.out_channels = fold.filters;
  g.in = {fold.folded_height, fold.folded_width, 1};
  g.kernel = {fold.taps, 1, 1};
  g.out = {fold.folded_height - fold.taps + 1, fold.folded_width, 1};
  return g;
}

}  // namespace snug::core::ops
