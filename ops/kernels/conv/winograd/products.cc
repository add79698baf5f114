#include "ops/kernels/conv/winograd/products.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::winograd {
namespace {

// Products are computed in pieces of so many steps along k, at most: two pieces then fit into the first-level cache.
constexpr int64_t kPieceDepth = 64;
constexpr int64_t kLineFloats = 16;  // of a cache

// Which pieces of the panels a strip asks for. The first strip of a panel asks for the next piece. Where panels come
// from memory, the second strip, or the first one if it is alone, asks for the piece after that, which is in the
// second-level cache by the time it is next.
enum class AskedPiece : uint8_t { kNone, kNext, kAfterNext, kBoth };

// Products of one sum follow each other. Where they are short, so many at most are one piece, whose sums stay in
// registers: in steps a sum has four products.
constexpr int64_t kMostLinks = 4;

// One of these products: how many floats behind the first one's its operands begin, and how many floats further on what
// later pieces read is.
struct Link {
  int64_t a = 0, panel = 0;
  int64_t to_next_a = 0, to_next_panel = 0, to_panel_after_next = 0;
};

// A register tile's rows of a piece.
struct Strip {
  int64_t depth;           // of each product
  StridedMatrix<float> a;  // of the first one, as is the panel
  const float* panel;
  float* c;
  bool accumulate;
  int64_t to_next_c;
  int64_t links;
  const Link* link;
};

// Multiplies whole rows of a register tile, as MultiplyTile does, and asks for what it has here of the next piece's
// rows, unless another strip does, and of a later piece of the panels.
template <Isa kIsa, int64_t kN, bool kTilesAreRows, bool kAsksForRows, AskedPiece kAsked>
SNUG_INLINE void MultiplyStrip(const Strip& s) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  constexpr int kRows = Tile::kRows;
  Vector sum[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* const c = s.c + r * kN;
    sum[r][0] = sum[r][1] = Vector{};
    if (s.accumulate) {
      LoadFloats(c, sum[r][0]);
      LoadFloats(c + Tile::kLanes, sum[r][1]);
    }
    __builtin_prefetch(c + s.to_next_c, 1, 3);
    __builtin_prefetch(c + s.to_next_c + Tile::kLanes, 1, 3);
  }
  const int64_t links = kTilesAreRows ? s.links : 1;  // the compiler is to see that it is one
  for (int64_t number = 0; number < links; ++number) {
    const Link link = s.link[number];
    const float* const a = s.a.data + link.a;
    const float* const panel = s.panel + link.panel;
    const auto step = [&](int64_t p) SNUG_LAMBDA {
      const float* const columns = panel + p * Tile::kColumns;
      Vector b0, b1;
      LoadFloats(columns, b0);
      LoadFloats(columns + Tile::kLanes, b1);
      if constexpr (kAsked == AskedPiece::kNext || kAsked == AskedPiece::kBoth) {
        for (int64_t l = 0; l < Tile::kColumns; l += kLineFloats) {
          __builtin_prefetch(columns + link.to_next_panel + l, 0, 3);
        }
      }
      if constexpr (kAsked == AskedPiece::kAfterNext || kAsked == AskedPiece::kBoth) {
        for (int64_t l = 0; l < Tile::kColumns; l += kLineFloats) {
          __builtin_prefetch(columns + link.to_panel_after_next + l, 0, 2);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float value = kTilesAreRows ? a[r * s.a.row + p] : a[r + p * s.a.col];
        sum[r][0] += value * b0;
        sum[r][1] += value * b1;
      }
    };
    int64_t p = 0;
    if constexpr (kTilesAreRows && kAsksForRows) {
      // A line has steps of one row: in as many steps each row's is asked for once.
      for (; p + kLineFloats <= s.depth; p += kLineFloats) {
#pragma GCC unroll 16
        for (int64_t l = 0; l < kLineFloats; ++l) {
          if (l % 2 == 0 && l / 2 < kRows) __builtin_prefetch(a + l / 2 * s.a.row + p + link.to_next_a, 0, 3);
          step(p + l);
        }
      }
    }
    for (; p < s.depth; ++p) {
      if constexpr (!kTilesAreRows && kAsksForRows) __builtin_prefetch(a + p * s.a.col + link.to_next_a, 0, 3);
      step(p);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    StoreFloats(sum[r][0], s.c + r * kN);
    StoreFloats(sum[r][1], s.c + r * kN + Tile::kLanes);
  }
}

template <Isa kIsa, int64_t kN, bool kTilesAreRows, bool kAsksForRows>
SNUG_INLINE void MultiplyStripThatAsks(AskedPiece asked, const Strip& s) {
  switch (asked) {
    case AskedPiece::kNone:
      return MultiplyStrip<kIsa, kN, kTilesAreRows, kAsksForRows, AskedPiece::kNone>(s);
    case AskedPiece::kNext:
      return MultiplyStrip<kIsa, kN, kTilesAreRows, kAsksForRows, AskedPiece::kNext>(s);
    case AskedPiece::kAfterNext:
      return MultiplyStrip<kIsa, kN, kTilesAreRows, kAsksForRows, AskedPiece::kAfterNext>(s);
    case AskedPiece::kBoth:
      return MultiplyStrip<kIsa, kN, kTilesAreRows, kAsksForRows, AskedPiece::kBoth>(s);
  }
}

// Multiplies `m` rows. `first` is where they, their results and the first panel begin.
template <Isa kIsa, int64_t kN, bool kTilesAreRows>
SNUG_INLINE void MultiplyPiece(IsaConstant<kIsa> isa, const PointProducts& all, int64_t m, const Strip& first) {
  using Tile = GemmTile<kIsa, float>;
  const bool alone = m < 2 * Tile::kRows;
  const auto asked_by = [&](int64_t strip) SNUG_LAMBDA {
    if (strip == 0) return all.panels_from_memory && alone ? AskedPiece::kBoth : AskedPiece::kNext;
    return strip == 1 && all.panels_from_memory ? AskedPiece::kAfterNext : AskedPiece::kNone;
  };
  for (int64_t j = 0; j < kN; j += Tile::kColumns) {
    for (int64_t i = 0; i < m; i += Tile::kRows) {
      Strip s = first;
      s.a = first.a.At(i, 0);
      s.panel += j * all.panel_rows;
      s.c += i * kN + j;
      const int64_t rows = std::min<int64_t>(Tile::kRows, m - i);
      if (rows < Tile::kRows) {
        for (int64_t l = 0; l < s.links; ++l) {
          StridedMatrix<float> a = s.a;
          a.data += s.link[l].a;
          MultiplyTile(isa, rows, s.depth, a, s.panel + s.link[l].panel, Tile::kColumns, s.c, kN,
                       s.accumulate || l > 0);
        }
      } else if (j == 0) {
        MultiplyStripThatAsks<kIsa, kN, kTilesAreRows, true>(asked_by(i / Tile::kRows), s);
      } else {
        MultiplyStripThatAsks<kIsa, kN, kTilesAreRows, false>(asked_by(i / Tile::kRows), s);
      }
    }
  }
}

// Rows and steps along k of a product.
struct Extent {
  Range rows, steps;
};

template <Isa kIsa, int64_t kN, bool kTilesAreRows>
SNUG_INLINE void MultiplyAll(IsaConstant<kIsa> isa, const PointProducts& all) {
  using Tile = GemmTile<kIsa, float>;
  const int64_t last = all.list.count - 1, pieces = std::max<int64_t>(1, Parts(all.k, kPieceDepth));
  const int64_t of_a_piece = kPieceDepth / std::max<int64_t>(1, all.k);  // so many products find room in a piece
  const int64_t most_links = kTilesAreRows ? std::clamp<int64_t>(of_a_piece, 1, kMostLinks) : 1;
  const auto product_at = [&](int64_t q) SNUG_LAMBDA -> const Product& {
    return all.list.products[static_cast<size_t>(std::min(q, last))];
  };
  const auto extent_of = [&](const Product& product) SNUG_LAMBDA -> Extent {
    const Range& tiles = all.tiles[product.tiles];
    if constexpr (kTilesAreRows) return {tiles, {0, all.k}};
    return {{0, all.m}, tiles};
  };
  // How many products are one piece, from the q-th on.
  const auto links_at = [&](int64_t q) SNUG_LAMBDA {
    int64_t links = 1;
    while (links < most_links && q + links <= last && product_at(q + links).c == product_at(q).c) ++links;
    return links;
  };
  // Where a piece of the panels of product q begins. Those from `pieces` on are the next products'.
  const auto panel_at = [&](int64_t q, int64_t piece) SNUG_LAMBDA {
    return product_at(q + piece / pieces).b * all.panels_point + piece % pieces * kPieceDepth * Tile::kColumns;
  };
  for (int64_t q = 0, links = 0; q <= last; q += links) {
    links = links_at(q);
    const Product& product = product_at(q);
    const auto [rows, steps] = extent_of(product);
    if (rows.begin == rows.end) continue;
    const bool accumulate = all.accumulate || !product.first;
    int64_t p = steps.begin;
    do {  // also where there are no steps: then sums begin with zeros
      const int64_t piece = p / kPieceDepth;
      std::array<Link, kMostLinks> link;
      Strip s = {.depth = std::min(kPieceDepth, steps.end - p),
                 .a = all.a.At(rows.begin, p),
                 .panel = all.panels + product.b * all.panels_point + p * Tile::kColumns,
                 .c = all.c + product.c * all.c_point + rows.begin * kN,
                 .accumulate = accumulate || p > steps.begin,
                 .to_next_c = 0,
                 .links = links,
                 .link = link.data()};
      s.a.data += product.a * all.a_point;
      const bool ends = p + s.depth >= steps.end;  // the next piece is another product's
      for (int64_t l = 0; l < links; ++l) {
        const Product &of = product_at(q + l), &next = product_at(q + l + links);
        Link& to = link[static_cast<size_t>(l)];
        to = {.a = (of.a - product.a) * all.a_point,
              .panel = (of.b - product.b) * all.panels_point,
              .to_next_a = kPieceDepth * all.a.col,
              .to_next_panel = panel_at(q + l, piece + links) - panel_at(q + l, piece),
              .to_panel_after_next = panel_at(q + l, piece + 2 * links) - panel_at(q + l, piece)};
        if (!ends) continue;
        const auto [next_rows, next_steps] = extent_of(next);
        to.to_next_a = (next.a - of.a) * all.a_point + (next_rows.begin - rows.begin) * all.a.row +
                       (next_steps.begin - p) * all.a.col;
        if (l == 0) s.to_next_c = (next.c - product.c) * all.c_point + (next_rows.begin - rows.begin) * kN;
      }
      MultiplyPiece<kIsa, kN, kTilesAreRows>(isa, all, rows.end - rows.begin, s);
      p += kPieceDepth;
    } while (p < steps.end);
  }
}

}  // namespace

void MultiplyPoints(const PointProducts& products) {
  // Functions of their own: in one, the compiler has fewer registers for each.
  if (!products.tiles_are_rows) {
    WithIsa([&](auto isa) SNUG_LAMBDA { MultiplyAll<isa(), kOutBlock, false>(isa, products); });
  } else if (products.n == kOutBlock) {
    WithIsa([&](auto isa) SNUG_LAMBDA { MultiplyAll<isa(), kOutBlock, true>(isa, products); });
  } else {
    WithIsa([&](auto isa) SNUG_LAMBDA { MultiplyAll<isa(), kOutBlock / 2, true>(isa, products); });
  }
}

int64_t PanelColumns() {
  int64_t columns = 0;
  WithIsa([&](auto isa) SNUG_LAMBDA { columns = GemmTile<isa(), float>::kColumns; });
  return columns;
}

}  // namespace snug::core::winograd
