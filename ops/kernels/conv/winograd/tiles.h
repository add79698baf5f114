// What the convolution and the gradient of its filters share (winograd.h): tiles and blocks of output channels, and the
// transform of the data.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/kernels/conv/winograd/axes.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

inline constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// All transformed filters are held where these are few floats (3 MB); where they are more, data are.
inline constexpr int64_t kFilterFloats = 6 << 18;
// So many tiles are worked at together: their transformed data and sums stay in the second-level cache, and those of a
// point, with its filters, in the first one. Where filters come from further away, it is more.
inline constexpr int64_t kBlockFloats = 1 << 17;  // of transformed data
inline constexpr int64_t kLeastTiles = 24, kMostTiles = 32, kMostTilesOfHeld = 48;
// Floats between the ends of what belongs to one point and the beginning of the next: without them many stores in a row
// would often fall into one set of the first-level cache.
inline constexpr int64_t kSkew = 16;

// Tiles, and blocks of output channels. What belongs to one of the points lies together, in `..._point` floats.
struct Tiling {
  explicit Tiling(const WinogradSizes& s);

  // The transformed filters of one block of output channels.
  int64_t filter_floats() const { return products * filter_point; }

  int64_t points, products, sums;       // of a tile
  int64_t height, width;                // in results, of which a tile has kOut by kOut
  int64_t rows, columns, tiles;         // of tiles: in an image, and in all
  int64_t out_blocks;
  int64_t filter_point;
};

// Where a tile begins in its image, and how many results it has.
struct TileAt {
  SNUG_INLINE TileAt(const Tiling& tiling, int64_t tile)
      : image(tile / (tiling.rows * tiling.columns)),
        row(tile / tiling.columns % tiling.rows * kOut),
        column(tile % tiling.columns * kOut),
        height(std::min(kOut, tiling.height - row)),
        width(std::min(kOut, tiling.width - column)) {}
  SNUG_INLINE bool whole() const { return height == kOut && width == kOut; }

  int64_t image, row, column;
  int64_t height, width;
};

// Some tiles in a row, sorted, so that those of each product lie together: those at the right edge, the whole ones,
// those at the lower edge, and those at both. What edges cut off has fewer points.
class TileBlock {
 public:
  // At most kMostTilesOfHeld.
  TileBlock(const Tiling& tiling, int64_t first, int64_t count);

  int64_t count() const { return count_; }
  // The number of the i-th.
  int64_t operator[](int64_t i) const { return tiles_[static_cast<size_t>(i)]; }
  const TilesOfProducts& of_products() const { return of_products_; }

 private:
  std::array<int64_t, kMostTilesOfHeld> tiles_;
  TilesOfProducts of_products_;
  int64_t count_;
};

// The products of a convolution: of points with filters, added up in sums. And those of the gradient of its filters: of
// points with sums' gradients, one for each filter's value.
ProductList ProductsOfConv(const WinogradSizes& s);
ProductList ProductsOfGradWeight(const WinogradSizes& s);

template <Isa kIsa>
using VectorOf = typename GemmTile<kIsa, float>::Vector;
template <Isa kIsa>
inline constexpr int64_t kLanesOf = GemmTile<kIsa, float>::kLanes;

struct Channels {
  int64_t first, count;
};

// The pixels of a tile, in an image of `height` rows of `width` pixels of `channels` elements.
struct TilePixels {
  Places rows, columns;
  int64_t image, height, width, channels;

  // In elements from the beginning; it may be padding's.
  SNUG_INLINE int64_t At(int64_t i, int64_t j) const {
    return ((image * height + rows.at(i)) * width + columns.at(j)) * channels;
  }
  SNUG_INLINE bool HasRow(int64_t i) const { return rows.at(i) >= 0 && rows.at(i) < height; }
  SNUG_INLINE bool HasColumn(int64_t j) const { return columns.at(j) >= 0 && columns.at(j) < width; }
};
template <class Axis>
SNUG_INLINE TilePixels DataPixels(const WinogradSizes& s, const TileAt& at) {
  return {Axis::DataOf(at.row, s.in_height, s.pad_top),
          Axis::DataOf(at.column, s.in_width, s.pad_left),
          at.image,
          s.in_height,
          s.in_width,
          s.in_channels};
}
template <class Axis>
SNUG_INLINE TilePixels ResultPixels(const WinogradSizes& s, const TileAt& at) {
  return {Axis::ResultsOf(at.row, s.in_height),
          Axis::ResultsOf(at.column, s.in_width),
          at.image,
          s.out_height,
          s.out_width,
          s.out_channels};
}

// Transforms the data of one tile, some of its channels: data[point * point_stride + channel]. Of the tile `next` those
// columns are asked for on the way that a tile to the left of it does not have. They may lie outside x, which does no
// harm. `kWhole`: the tile is.
template <Isa kIsa, class Axis, bool kWhole, class T>
SNUG_INLINE void TransformTileOf(const WinogradSizes& s, const TileAt& at, const TileAt& next, const Channels& channels,
                                 const T* x, float* data, int64_t point_stride) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kData = Axis::kData, kPoints = Axis::kPoints;
  const int64_t height = kWhole ? kOut : at.height, width = kWhole ? kOut : at.width;
  const int64_t lines = kWhole ? kData : Axis::DataCount(height);
  const TilePixels pixels = DataPixels<Axis>(s, at), coming = DataPixels<Axis>(s, next);
  const bool inside = pixels.HasRow(0) && pixels.HasRow(kData - 1) && pixels.HasColumn(0) && pixels.HasColumn(kData - 1);
  for (int64_t c = 0; c < channels.count; c += kLanesOf<kIsa>) {
    Vector across[kData * kPoints];
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t j = kData - Axis::kNewData; j < kData; ++j) {
        __builtin_prefetch(x + coming.At(i, j) + channels.first + c, 0, 3);
      }
      Vector line[kData];
      for (int64_t j = 0; j < kData; ++j) {
        line[j] = Vector{};
        if (inside || (pixels.HasRow(i) && pixels.HasColumn(j))) {
          LoadFloats(x + pixels.At(i, j) + channels.first + c, line[j]);
        }
      }
      Axis::Data(width, line, across + i * kPoints);
    }
    for (int64_t j = 0; j < kPoints; ++j) {
      if (!kWhole && !HasPoint(width, Axis::NumberOfPoint(j))) continue;
      Vector column[kData] = {}, down[kPoints] = {};  // edges leave out some
      for (int64_t i = 0; i < lines; ++i) column[i] = across[i * kPoints + j];
      Axis::Data(height, column, down);
      for (int64_t i = 0; i < kPoints; ++i) {
        if (!kWhole && !HasPoint(height, Axis::NumberOfPoint(i))) continue;
        StoreFloats(down[i], data + (i * kPoints + j) * point_stride + c);
      }
    }
  }
}
template <Isa kIsa, class Axis, class T>
SNUG_INLINE void TransformTile(const WinogradSizes& s, const TileAt& at, const TileAt& next, const Channels& channels,
                               const T* x, float* data, int64_t point_stride) {
  if (at.whole()) return TransformTileOf<kIsa, Axis, true>(s, at, next, channels, x, data, point_stride);
  TransformTileOf<kIsa, Axis, false>(s, at, next, channels, x, data, point_stride);
}

}  // namespace winograd
}  // namespace snug::core
