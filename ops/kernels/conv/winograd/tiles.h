// What the convolution and the gradient of its filters share (winograd.h): tiles and blocks of output channels, and the
// transform of the data.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/conv/winograd/transforms.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

inline constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// So many output channels are worked at together.
inline constexpr int64_t kOutBlock = 64;
// All transformed filters are held where these are few floats (3 MB); where they are more, data are.
inline constexpr int64_t kFilterFloats = 3 << 18;
// So many tiles are worked at together: their transformed data and sums stay in the second-level cache, and those of a
// point, with its filters, in the first one. Where filters come from further away, it is more.
inline constexpr int64_t kBlockFloats = 1 << 17;  // of transformed data
inline constexpr int64_t kLeastTiles = 24, kMostTiles = 32, kMostTilesOfHeld = 48;
// Floats between the ends of what belongs to one point and the beginning of the next: without them 36 stores in a row
// would often fall into one set of the first-level cache.
inline constexpr int64_t kSkew = 16;

// Tiles, and blocks of output channels. What belongs to one of the 36 points lies together, in `..._point` floats.
struct Tiling {
  explicit Tiling(const WinogradSizes& s)
      : rows(Parts(s.out_height, kOut)),
        columns(Parts(s.out_width, kOut)),
        tiles(s.batch * rows * columns),
        out_blocks(Parts(s.out_channels, kOutBlock)),
        filter_point(s.in_channels * kOutBlock + kSkew) {}

  // The transformed filters of one block of output channels.
  int64_t filter_floats() const { return kPoints * filter_point; }

  int64_t rows, columns, tiles;  // of tiles: in an image, and in all
  int64_t out_blocks;
  int64_t filter_point;
};

template <Isa kIsa>
using VectorOf = typename GemmTile<kIsa, float>::Vector;
template <Isa kIsa>
inline constexpr int64_t kLanesOf = GemmTile<kIsa, float>::kLanes;

// Where a tile begins in its image.
struct TileAt {
  TileAt(const Tiling& tiling, int64_t tile)
      : image(tile / (tiling.rows * tiling.columns)),
        row(tile / tiling.columns % tiling.rows * kOut),
        column(tile % tiling.columns * kOut) {}
  // Which pixel the first one is, of all images. That of the data may be padding.
  int64_t ResultPixel(const WinogradSizes& s) const { return (image * s.out_height + row) * s.out_width + column; }
  int64_t DataPixel(const WinogradSizes& s) const {
    return (image * s.in_height + row - s.pad_top) * s.in_width + column - s.pad_left;
  }

  int64_t image, row, column;  // of the result
};

struct Channels {
  int64_t first, count;
};

// Transforms the data of one tile, some of its channels: data[point * point_stride + channel]. Of the tile `next` those
// columns are asked for on the way that a tile to the left of it does not have. They may lie outside x, which does no
// harm.
template <Isa kIsa, class T>
SNUG_INLINE void TransformTile(const WinogradSizes& s, const TileAt& at, const TileAt& next, const Channels& channels,
                               const T* x, float* data, int64_t point_stride) {
  using Vector = VectorOf<kIsa>;
  const int64_t top = at.row - s.pad_top;
  const int64_t left = at.column - s.pad_left;
  const bool inside = top >= 0 && left >= 0 && top + kIn <= s.in_height && left + kIn <= s.in_width;
  const T* const corner = x + at.DataPixel(s) * s.in_channels + channels.first;
  const T* const coming = x + next.DataPixel(s) * s.in_channels + channels.first;
  for (int64_t c = 0; c < channels.count; c += kLanesOf<kIsa>) {
    Vector across[kPoints];
    for (int64_t i = 0; i < kIn; ++i) {
      for (int64_t j = kIn - kOut; j < kIn; ++j) {
        __builtin_prefetch(coming + (i * s.in_width + j) * s.in_channels + c, 0, 3);
      }
      Vector line[kIn];
      for (int64_t j = 0; j < kIn; ++j) {
        const bool there = inside || (top + i >= 0 && top + i < s.in_height && left + j >= 0 && left + j < s.in_width);
        line[j] = Vector{};
        if (there) LoadFloats(corner + (i * s.in_width + j) * s.in_channels + c, line[j]);
      }
      TransformData(line, 1, across + i * kIn, 1);
    }
    for (int64_t j = 0; j < kIn; ++j) {
      Vector down[kIn];
      TransformData(across + j, kIn, down, 1);
      for (int64_t i = 0; i < kIn; ++i) StoreFloats(down[i], data + (i * kIn + j) * point_stride + c);
    }
  }
}

}  // namespace winograd
}  // namespace snug::core
