// Tiles of Winograd's filtering (winograd.h), blocks of them and of output channels, and their products.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "ops/kernels/conv/winograd/axes.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {

inline constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// All transformed filters are held where these are few floats (6 MB); where they are more, data are.
inline constexpr int64_t kFilterFloats = 6 << 18;
// So many tiles are worked at together: their transformed data and sums stay in the second-level cache, and those of a
// point, with its filters, in the first one. Where filters come from further away, it is more.
inline constexpr int64_t kBlockFloats = 1 << 17;  // of transformed data
inline constexpr int64_t kLeastTiles = 24, kMostTiles = 32, kMostTilesOfHeld = 48;
// Of a block, in whose products tiles are rows or steps along k. With more steps they are no faster.
inline constexpr int64_t kMostTilesOfBlock = 64;
// Floats between the ends of what belongs to one point and the beginning of the next: without them many stores in a row
// would often fall into one set of the first-level cache.
inline constexpr int64_t kSkew = 16;

// Tiles, and blocks of output channels. What belongs to one of the points lies together, in `..._point` floats.
struct Tiling {
  explicit Tiling(const WinogradSizes& s);

  // The transformed filters of one block of output channels.
  int64_t filter_floats() const { return products * filter_point; }

  int64_t tile_side;               // results of a whole tile, along an axis
  int64_t points, products, sums;  // of a tile
  int64_t height, width;           // in results
  int64_t rows, columns, tiles;    // of tiles: in an image, and in all
  int64_t out_block, out_blocks;   // output channels that are worked at together
  int64_t filter_point;
};

// Where a tile begins in its image, and how many results it has.
struct TileAt {
  SNUG_INLINE TileAt(const Tiling& tiling, int64_t tile)
      : image(tile / (tiling.rows * tiling.columns)),
        row(tile / tiling.columns % tiling.rows * tiling.tile_side),
        column(tile % tiling.columns * tiling.tile_side),
        height(std::min(tiling.tile_side, tiling.height - row)),
        width(std::min(tiling.tile_side, tiling.width - column)),
        whole_height(height == tiling.tile_side),
        whole_width(width == tiling.tile_side) {}
  SNUG_INLINE bool whole() const { return whole_height && whole_width; }

  int64_t image, row, column;
  int64_t height, width;
  bool whole_height, whole_width;
};

// Calls body(whole) with whether the tile is, as a constant: the sizes of whole tiles are known as they are compiled.
template <class Body>
SNUG_INLINE void WithWhole(const TileAt& at, const Body& body) {
  if (at.whole()) return body(std::true_type());
  body(std::false_type());
}

// Some tiles in a row, sorted, so that those of each product lie together: those at the right edge, the whole ones,
// those at the lower edge, and those at both. What edges cut off has fewer points.
class TileBlock {
 public:
  // At most kMostTilesOfBlock.
  TileBlock(const Tiling& tiling, int64_t first, int64_t count);

  int64_t count() const { return count_; }
  // The number of the i-th.
  int64_t operator[](int64_t i) const { return tiles_[static_cast<size_t>(i)]; }
  const TilesOfProducts& of_products() const { return of_products_; }

 private:
  std::array<int64_t, kMostTilesOfBlock> tiles_;
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

// The floats from one tile's transformed data to the next one's: whole vectors, and a line more where the lines of many
// tiles would else fall into a few sets of the first-level cache.
constexpr int64_t StrideOfTiles(int64_t channels) {
  const int64_t whole = RoundedUpChannels(channels);
  return whole % 256 == 0 ? whole + kSkew : whole;
}

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

}  // namespace winograd
}  // namespace snug::core
