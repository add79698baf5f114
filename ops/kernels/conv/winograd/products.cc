#include "ops/kernels/conv/winograd/products.h"

#include <algorithm>
#include <cstdint>

#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::winograd {
namespace {

// Products are computed in pieces of so many steps along k, at most: two pieces then fit into the first-level cache.
constexpr int64_t kPieceDepth = 64;
constexpr int64_t kLineFloats = 16;  // of a cache

// Which piece of the panels a strip asks for. The first strip of a panel asks for the next piece. Where panels come
// from memory, the second strip asks for the piece after that, which is in the second-level cache by the time it is
// next. A panel of one whole strip has nobody to ask for that one.
enum class AskedPiece : uint8_t { kNone, kNext, kAfterNext };

// A register tile's rows of a piece, and how many floats further on what later pieces read is.
struct Strip {
  int64_t depth;
  StridedMatrix<float> a;
  const float* panel;
  float* c;
  bool accumulate;
  int64_t to_next_a, to_next_c;
  int64_t to_next_panel, to_panel_after_next;
};

// Multiplies whole rows of a register tile, as MultiplyTile does, and asks for what it has here of the next piece's
// rows, unless another strip does, and of a later piece of the panels.
template <Isa kIsa, bool kRowMajor, bool kAsksForRows, AskedPiece kAsked>
SNUG_INLINE void MultiplyStrip(const Strip& s) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  constexpr int kRows = Tile::kRows;
  Vector sum[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* const c = s.c + r * kOutBlock;
    sum[r][0] = sum[r][1] = Vector{};
    if (s.accumulate) {
      LoadFloats(c, sum[r][0]);
      LoadFloats(c + Tile::kLanes, sum[r][1]);
    }
    __builtin_prefetch(c + s.to_next_c, 1, 3);
    __builtin_prefetch(c + s.to_next_c + Tile::kLanes, 1, 3);
  }
  const auto step = [&](int64_t p) SNUG_LAMBDA {
    const float* const columns = s.panel + p * Tile::kColumns;
    Vector b0, b1;
    LoadFloats(columns, b0);
    LoadFloats(columns + Tile::kLanes, b1);
    if constexpr (kAsked == AskedPiece::kNext) {
      for (int64_t l = 0; l < Tile::kColumns; l += kLineFloats) __builtin_prefetch(columns + s.to_next_panel + l, 0, 3);
    } else if constexpr (kAsked == AskedPiece::kAfterNext) {
      for (int64_t l = 0; l < Tile::kColumns; l += kLineFloats) {
        __builtin_prefetch(columns + s.to_panel_after_next + l, 0, 2);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float value = kRowMajor ? s.a.data[r * s.a.row + p] : s.a.data[r + p * s.a.col];
      sum[r][0] += value * b0;
      sum[r][1] += value * b1;
    }
  };
  int64_t p = 0;
  if constexpr (kRowMajor && kAsksForRows) {
    // A line has steps of one row: in as many steps each row's is asked for once.
    for (; p + kLineFloats <= s.depth; p += kLineFloats) {
#pragma GCC unroll 16
      for (int64_t l = 0; l < kLineFloats; ++l) {
        if (l % 2 == 0 && l / 2 < kRows) __builtin_prefetch(s.a.data + l / 2 * s.a.row + p + s.to_next_a, 0, 3);
        step(p + l);
      }
    }
  }
  for (; p < s.depth; ++p) {
    if constexpr (!kRowMajor && kAsksForRows) __builtin_prefetch(s.a.data + p * s.a.col + s.to_next_a, 0, 3);
    step(p);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    StoreFloats(sum[r][0], s.c + r * kOutBlock);
    StoreFloats(sum[r][1], s.c + r * kOutBlock + Tile::kLanes);
  }
}

template <Isa kIsa, bool kRowMajor, bool kAsksForRows>
SNUG_INLINE void MultiplyStripOfTile(int64_t first_row, bool panels_from_memory, const Strip& s) {
  if (first_row == 0) return MultiplyStrip<kIsa, kRowMajor, kAsksForRows, AskedPiece::kNext>(s);
  if (first_row == GemmTile<kIsa, float>::kRows && panels_from_memory) {
    return MultiplyStrip<kIsa, kRowMajor, kAsksForRows, AskedPiece::kAfterNext>(s);
  }
  MultiplyStrip<kIsa, kRowMajor, kAsksForRows, AskedPiece::kNone>(s);
}

template <Isa kIsa, bool kRowMajor>
SNUG_INLINE void MultiplyPiece(IsaConstant<kIsa> isa, const PointProducts& all, const Strip& first) {
  using Tile = GemmTile<kIsa, float>;
  for (int64_t j = 0; j < kOutBlock; j += Tile::kColumns) {
    for (int64_t i = 0; i < all.m; i += Tile::kRows) {
      Strip s = first;
      s.a = first.a.At(i, 0);
      s.panel += j * all.k;
      s.c += i * kOutBlock + j;
      const int64_t rows = std::min<int64_t>(Tile::kRows, all.m - i);
      if (rows < Tile::kRows) {
        MultiplyTile(isa, rows, s.depth, s.a, s.panel, Tile::kColumns, s.c, kOutBlock, s.accumulate);
      } else if (j == 0) {
        MultiplyStripOfTile<kIsa, kRowMajor, true>(i, all.panels_from_memory, s);
      } else {
        MultiplyStripOfTile<kIsa, kRowMajor, false>(i, all.panels_from_memory, s);
      }
    }
  }
}

template <Isa kIsa, bool kRowMajor>
SNUG_INLINE void MultiplyAll(IsaConstant<kIsa> isa, const PointProducts& all) {
  using Tile = GemmTile<kIsa, float>;
  const int64_t pieces = Parts(all.k, kPieceDepth);
  // Where a piece of the panels begins, counted from this point's. Those from `pieces` on are the next points'.
  const auto piece_at = [&](int64_t piece) SNUG_LAMBDA {
    return piece / pieces * all.panels_point + piece % pieces * kPieceDepth * Tile::kColumns;
  };
  for (int64_t point = 0; point < kPoints; ++point) {
    for (int64_t p = 0; p < all.k; p += kPieceDepth) {
      const int64_t piece = p / kPieceDepth;
      Strip s = {.depth = std::min(kPieceDepth, all.k - p),
                 .a = all.a.At(0, p),
                 .panel = all.panels + point * all.panels_point + piece_at(piece),
                 .c = all.c + point * all.c_point,
                 .accumulate = all.accumulate || p > 0,
                 .to_next_a = kPieceDepth * all.a.col,
                 .to_next_c = 0,
                 .to_next_panel = piece_at(piece + 1) - piece_at(piece),
                 .to_panel_after_next = piece_at(piece + 2) - piece_at(piece)};
      s.a.data += point * all.a_point;
      if (p + s.depth == all.k) {  // the next piece is another point's
        s.to_next_a = all.a_point - p * all.a.col;
        s.to_next_c = all.c_point;
      }
      MultiplyPiece<kIsa, kRowMajor>(isa, all, s);
    }
  }
}

}  // namespace

void MultiplyPoints(const PointProducts& products) {
  if (products.a.col == 1) {
    WithIsa([&](auto isa) SNUG_LAMBDA { MultiplyAll<isa(), true>(isa, products); });
  } else {
    WithIsa([&](auto isa) SNUG_LAMBDA { MultiplyAll<isa(), false>(isa, products); });
  }
}

}  // namespace snug::core::winograd
