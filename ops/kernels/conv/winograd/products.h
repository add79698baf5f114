// The products of Winograd's filtering (winograd.h): one for each pair of points of rows and columns, of a few tiles
// and channels.
#pragma once

#include <array>
#include <cstdint>

#include "ops/kernels/matmul/gemm_tile.h"

namespace snug::core::winograd {

// So many output channels are worked at together.
inline constexpr int64_t kOutBlock = 64;

// Which tiles a product has: those at an edge have no products at points that only whole rows or columns have. These
// are bits.
inline constexpr int kWantsHeight = 1, kWantsWidth = 2, kKindsOfProducts = 4;
struct Range {
  int64_t begin = 0, end = 0;
};
using TilesOfProducts = std::array<Range, kKindsOfProducts>;

// One product: of the a-th matrix on the left and the b-th on the right, added to the c-th result unless it is the
// `first` there. All of a result have the same tiles.
struct Product {
  int16_t a = 0, b = 0, c = 0;
  uint8_t tiles = 0;  // kWantsHeight | kWantsWidth
  bool first = false;
};
// In which the products of a result follow each other.
struct ProductList {
  int64_t count = 0;
  std::array<Product, 81> products;
};

// c [m, n] (+)= a [m, k] b [k, n] for each product. Where one matrix ends the next begins `..._point`
// floats after it began. A product is so short that the first-level cache has none of it when it begins: so what the
// next one reads is asked for while this one is computed. Either m or k is the number of tiles, of which a product may
// have a part: then `a` has rows whose elements, or else columns whose elements, lie together.
struct PointProducts {
  const ProductList& list;
  TilesOfProducts tiles;
  bool tiles_are_rows = false;          // otherwise tiles are steps along k
  int64_t m = 0, n = kOutBlock, k = 0;  // where tiles are rows, n may be half as much
  StridedMatrix<float> a;
  int64_t a_point = 0;
  const float* panels = nullptr;  // b, [panel][panel_rows][columns of a register tile]
  int64_t panel_rows = 0;         // at least k
  int64_t panels_point = 0;
  bool panels_from_memory = false;  // they are asked for two pieces ahead, not one
  float* c = nullptr;
  int64_t c_point = 0;
  bool accumulate = false;  // otherwise c is overwritten by the first product of each
};
void MultiplyPoints(const PointProducts& products);

// How many columns a panel has on this machine.
int64_t PanelColumns();

}  // namespace snug::core::winograd
