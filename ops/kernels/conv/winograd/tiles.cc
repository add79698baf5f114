#include "ops/kernels/conv/winograd/tiles.h"

#include <algorithm>

#include "ops/kernels/matmul/parts.h"

namespace snug::core::winograd {
namespace {

// Of an edge, in the sequence in which a block has them.
constexpr size_t kRight = 0, kWhole = 1, kLower = 2, kCorner = 3, kSorts = 4;

size_t SortOf(const TileAt& at) {
  if (at.whole_height) return at.whole_width ? kWhole : kRight;
  return at.whole_width ? kLower : kCorner;
}

// Whether a tile that is cut off at an edge of an axis of `results` has no such product.
template <class Axis>
bool WantsWhole(int64_t results, int64_t product) {
  const int64_t over = results % Axis::kTile;
  return over != 0 && !HasPoint(over, Axis::NumberOf(product));
}

// Calls make(axis, rows' product, columns' product) for each product of a tile.
template <class Make>
ProductList ListProducts(const WinogradSizes& s, const Make& make) {
  ProductList list;
  WithAxis(s.kind, [&](auto axis) {
    using Axis = decltype(axis);
    const Tiling tiling(s);
    for (int64_t i = 0; i < Axis::kProducts; ++i) {
      for (int64_t j = 0; j < Axis::kProducts; ++j) {
        Product product = make(axis, i, j);
        product.tiles = static_cast<uint8_t>((WantsWhole<Axis>(tiling.height, i) ? kWantsHeight : 0) |
                                             (WantsWhole<Axis>(tiling.width, j) ? kWantsWidth : 0));
        list.products[static_cast<size_t>(list.count++)] = product;
      }
    }
  });
  return list;
}

template <class Axis>
int16_t PointAt(int64_t i, int64_t j) {
  return static_cast<int16_t>(Axis::PointOf(i) * Axis::kPoints + Axis::PointOf(j));
}
template <class Axis>
int16_t SumAt(int64_t i, int64_t j) {
  return static_cast<int16_t>(Axis::SumOf(i) * Axis::kSums + Axis::SumOf(j));
}
template <class Axis>
int16_t ProductAt(int64_t i, int64_t j) {
  return static_cast<int16_t>(i * Axis::kProducts + j);
}
// Whether no product before it goes into its sum.
template <class Axis>
bool IsFirst(int64_t product) {
  return product == 0 || Axis::SumOf(product) != Axis::SumOf(product - 1);
}

}  // namespace

Tiling::Tiling(const WinogradSizes& s) {
  WithAxis(s.kind, [&](auto axis) {
    using Axis = decltype(axis);
    tile_side = Axis::kTile;
    points = Axis::kPoints * Axis::kPoints;
    products = Axis::kProducts * Axis::kProducts;
    sums = Axis::kSums * Axis::kSums;
    height = Axis::Results(s.in_height, s.out_height);
    width = Axis::Results(s.in_width, s.out_width);
  });
  rows = Parts(height, tile_side);
  columns = Parts(width, tile_side);
  tiles = s.batch * rows * columns;
  out_block = OutBlockOf(s.kind);
  out_blocks = Parts(s.out_channels, out_block);
  filter_point = s.in_channels * out_block + kSkew;
}

TileBlock::TileBlock(const Tiling& tiling, int64_t first, int64_t count) : count_(count) {
  std::array<int64_t, kSorts + 1> begin = {};  // of each sort, and the end of the last
  for (int64_t t = first; t < first + count; ++t) ++begin[SortOf(TileAt(tiling, t)) + 1];
  for (size_t sort = 0; sort < kSorts; ++sort) begin[sort + 1] += begin[sort];
  of_products_[0] = {0, count};
  of_products_[kWantsHeight] = {0, begin[kLower]};
  of_products_[kWantsWidth] = {begin[kWhole], begin[kCorner]};
  of_products_[kWantsHeight | kWantsWidth] = {begin[kWhole], begin[kLower]};
  for (int64_t t = first; t < first + count; ++t) {
    tiles_[static_cast<size_t>(begin[SortOf(TileAt(tiling, t))]++)] = t;
  }
}

ProductList ProductsOfConv(const WinogradSizes& s) {
  ProductList list = ListProducts(s, [](auto axis, int64_t i, int64_t j) -> Product {
    using Axis = decltype(axis);
    return {.a = PointAt<Axis>(i, j),
            .b = ProductAt<Axis>(i, j),
            .c = SumAt<Axis>(i, j),
            .first = IsFirst<Axis>(i) && IsFirst<Axis>(j)};
  });
  // Those of a sum stay in their sequence, which bits depend on.
  std::sort(list.products.begin(), list.products.begin() + list.count,
            [](const Product& a, const Product& b) { return a.c != b.c ? a.c < b.c : a.b < b.b; });
  return list;
}

ProductList ProductsOfGradWeight(const WinogradSizes& s) {
  return ListProducts(s, [](auto axis, int64_t i, int64_t j) -> Product {
    using Axis = decltype(axis);
    return {.a = PointAt<Axis>(i, j), .b = SumAt<Axis>(i, j), .c = ProductAt<Axis>(i, j), .first = true};
  });
}

}  // namespace snug::core::winograd

namespace snug::core {

int64_t WinogradTaps(WinogradKind kind) {
  int64_t taps = 0;
  winograd::WithAxis(kind, [&](auto axis) { taps = decltype(axis)::kTaps * decltype(axis)::kTaps; });
  return taps;
}

int64_t WinogradTile(WinogradKind kind) {
  int64_t tile = 0;
  winograd::WithAxis(kind, [&](auto axis) { tile = decltype(axis)::kTile; });
  return tile;
}

}  // namespace snug::core
