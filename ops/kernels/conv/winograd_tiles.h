// What the convolution and the gradient of its filters share (winograd.h): tiles and blocks of output channels, the
// transform of the data, and the products.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/parallel.h"
#include "ops/kernels/conv/winograd.h"
#include "ops/kernels/conv/winograd_transforms.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

inline constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// So many output channels are worked at together.
inline constexpr int64_t kOutBlock = 64;
// All transformed filters are held if these are few floats (3 MB), else those of one block.
inline constexpr int64_t kFilterFloats = 3 << 18;
// Transformed data and sums of a block of tiles stay in the second-level cache: each takes about so many floats (0.4
// MB).
inline constexpr int64_t kBlockFloats = 1 << 17;
inline constexpr int64_t kMostTiles = 48, kLeastTiles = 24;
// Where the data of many tiles are held, they are at most so many floats (5 MB), but no fewer than kHeldTiles tiles.
inline constexpr int64_t kHeldFloats = 5 << 18;
inline constexpr int64_t kHeldTiles = 96;
// Floats between the ends of what belongs to one point and the beginning of the next: without them 36 stores in a row
// would often fall into one set of the first-level cache.
inline constexpr int64_t kSkew = 16;
// Along input channels the products are cut like this, so that a panel of filters stays in the first-level cache.
inline constexpr int64_t kDepth = 256;

// Tiles, and blocks of output channels. What belongs to one of the 36 points lies together, in `..._point` floats.
struct Tiling {
  explicit Tiling(const WinogradSizes& s)
      : rows(Parts(s.out_height, kOut)),
        columns(Parts(s.out_width, kOut)),
        tiles(s.batch * rows * columns),
        out_blocks(Parts(s.out_channels, kOutBlock)),
        filter_point(s.in_channels * kOutBlock + kSkew) {}

  // The transformed filters, or sums of gradients, of one block of output channels.
  int64_t filter_floats() const { return kPoints * filter_point; }

  int64_t rows, columns, tiles;  // of tiles: in an image, and in all
  int64_t out_blocks;
  int64_t filter_point;
};

inline int64_t HeldTiles(int64_t tiles, int64_t channels) {
  return std::min(tiles, std::max(kHeldTiles, kHeldFloats / kPoints / channels));
}

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
  int64_t image, row, column;  // of the result
};

// Transforms the data of one tile, all its channels: data[point * point_stride + channel].
template <Isa kIsa, class T>
SNUG_INLINE void TransformTile(const WinogradSizes& s, const TileAt& at, const T* x, float* data,
                               int64_t point_stride) {
  using Vector = VectorOf<kIsa>;
  const int64_t top = at.row - s.pad_top;
  const int64_t left = at.column - s.pad_left;
  const bool inside = top >= 0 && left >= 0 && top + kIn <= s.in_height && left + kIn <= s.in_width;
  const T* image = x + at.image * s.in_height * s.in_width * s.in_channels;
  const T* corner = image + (top * s.in_width + left) * s.in_channels;
  for (int64_t c = 0; c < s.in_channels; c += kLanesOf<kIsa>) {
    Vector across[kPoints];
    for (int64_t i = 0; i < kIn; ++i) {
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

// c [m, kOutBlock] (+)= a [m, k] panels, where the panels of b are `panel_rows` rows long.
template <Isa kIsa>
SNUG_INLINE void MultiplyOutBlock(IsaConstant<kIsa> isa, int64_t m, int64_t k, StridedMatrix<float> a,
                                  const float* panels, int64_t panel_rows, float* c, bool accumulate) {
  using Tile = GemmTile<kIsa, float>;
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    for (int64_t j = 0; j < kOutBlock; j += Tile::kColumns) {
      const float* panel = panels + j * panel_rows + p * Tile::kColumns;
      for (int64_t i = 0; i < m; i += Tile::kRows) {
        MultiplyTile(isa, std::min<int64_t>(Tile::kRows, m - i), depth, a.At(i, p), panel, Tile::kColumns,
                     c + i * kOutBlock + j, kOutBlock, accumulate || p > 0);
      }
    }
  }
}

// Transforms the data of tiles from `first` on, on several threads.
template <class T>
void TransformTiles(int threads, const WinogradSizes& s, const Tiling& tiling, int64_t first, int64_t count, const T* x,
                    float* data, int64_t point_stride) {
  ParallelFor(threads, count, 4, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t t = begin; t < end; ++t) {
        TransformTile<isa()>(s, TileAt(tiling, first + t), x, data + t * s.in_channels, point_stride);
      }
    });
  });
}

}  // namespace winograd
}  // namespace snug::core
