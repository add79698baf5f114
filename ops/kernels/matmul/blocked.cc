#include "ops/kernels/matmul/blocked.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/transpose.h"

namespace snug::core {
namespace {

// A block of c has so many rows and columns, at most. It is smaller where its sums are kept apart, because they take as
// many floats, and in small products, whose network may not have much more memory than their operands.
struct BlockSize {
  int64_t rows, columns;
};
constexpr BlockSize kUsualBlock = {1152, 1024}, kBlockWithSums = {576, 512}, kSmallBlock = {288, 256};
constexpr int64_t kSmallProduct = 1 << 25;  // multiply-adds
// Rows and columns are packed in pieces of so many entries along k: a panel of b (16 or 32 KB) then stays in the
// first-level cache while the strips of a go by.
constexpr int64_t kPieceDepth = 256;
// Small products are packed as a whole, and no thread waits between their pieces. Of others as many pieces at once as
// these floats hold (0.5 MB), or one.
constexpr int64_t kPackedFloats = 1 << 18;
// A thread goes through its part of c in rectangles of so many rows and columns, for whose panels of b the second-level
// cache has room.
constexpr int64_t kTaskRows = 24;
constexpr int64_t kTaskColumns = 512;
// Strips of a have the rows of a register tile: 8, 6 or 4, which all divide this.
constexpr int64_t kStripMultiple = 24;

// How a product is cut. Everything follows from its size.
struct Cut {
  Cut(int64_t m, int64_t n, int64_t k, bool sums_apart)
      : Cut(m, n, k, sums_apart,
            m * n * k <= kSmallProduct ? kSmallBlock
            : sums_apart               ? kBlockWithSums
                                       : kUsualBlock) {}
  Cut(int64_t m, int64_t n, int64_t k, bool sums_apart, const BlockSize& most)
      : rows(EqualPart(m, most.rows, kStripMultiple)),
        columns(EqualPart(n, most.columns, kPanel<float>)),
        depth(EqualPart(k, kPieceDepth, 8)),
        pieces(
            std::clamp<int64_t>(kPackedFloats / ((rows + columns) * depth), 1, std::max<int64_t>(1, Parts(k, depth)))),
        sums(sums_apart ? rows * columns : 0) {}

  int64_t a_floats() const { return rows * depth * pieces; }
  int64_t b_floats() const { return columns * depth * pieces; }
  int64_t bytes() const { return (a_floats() + b_floats() + sums) * static_cast<int64_t>(sizeof(float)); }

  int64_t rows, columns, depth;  // of a block of c, and of a piece along k
  int64_t pieces;                // are packed at once
  int64_t sums;                  // floats for sums of a block of c, where c itself cannot hold them
};

template <class T>
SNUG_INLINE float AsFloat(T x) {
  return static_cast<float>(x);
}

// Packs a [rows, depth] into strips [depth][kStrip]. Missing rows of the last one are never read.
template <int kStrip, class T>
SNUG_INLINE void PackStrips(int64_t rows, int64_t depth, StridedMatrix<T> a, float* strips) {
  int64_t i = 0;
  constexpr int64_t kSameSet = 4096;  // bytes: lines so far apart share a set of the first-level cache
  if (a.row == 1 && a.col * static_cast<int64_t>(sizeof(T)) % kSameSet == 0) {
    // A line of memory has entries of several strips, and these lines push each other out of the cache. So all strips
    // take their entries of a line before the next one is read.
    const int64_t whole = rows / kStrip;
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t s = 0; s < whole; ++s) {
        const T* from = a.data + p * a.col + s * kStrip;
        float* to = strips + (s * depth + p) * kStrip;
        for (int64_t l = 0; l < kStrip; ++l) to[l] = AsFloat(from[l]);
      }
    }
    i = whole * kStrip;
  }
  for (; i < rows; i += kStrip) {
    const int64_t lines = std::min<int64_t>(kStrip, rows - i);
    const StridedMatrix<T> from = a.At(i, 0);
    float* strip = strips + i * depth;
    if (lines == kStrip && from.col == 1) {
      TransposeRows<8, kStrip>(depth, from.data, from.row, strip, kStrip);
    } else if (lines == kStrip && from.row == 1) {
      for (int64_t p = 0; p < depth; ++p) {
        for (int64_t l = 0; l < kStrip; ++l) strip[p * kStrip + l] = AsFloat(from.data[p * from.col + l]);
      }
    } else {
      for (int64_t l = 0; l < lines; ++l) {
        for (int64_t p = 0; p < depth; ++p) strip[p * kStrip + l] = AsFloat(from.data[l * from.row + p * from.col]);
      }
    }
  }
}

// Packs b [depth, columns] into panels [depth][kWidth]; missing columns of the last one are 0.
template <int64_t kWidth, class T>
SNUG_INLINE void PackPanelsOf(int64_t depth, int64_t columns, StridedMatrix<T> b, float* panels) {
  for (int64_t j = 0; j < columns; j += kWidth, panels += kWidth * depth) {
    const int64_t width = std::min(kWidth, columns - j);
    const StridedMatrix<T> from = b.At(0, j);
    if (from.row == 1 && width == kWidth) {
      for (int64_t l = 0; l < kWidth; l += 8) {
        TransposeRows<8, 8>(depth, from.data + l * from.col, from.col, panels + l, kWidth);
      }
    } else {
      PackPanel<float, kWidth>(depth, width, from, panels);
    }
  }
}

// What is multiplied at once: a block of c, and the pieces along k that are packed together.
template <class T>
struct Round {
  const GemmCall<T>& call;
  Activation activation;
  const Cut& cut;
  float *a, *b;                  // [pieces] of strips, and of panels
  float* sums;                   // [cut.rows, cut.columns]; null: c holds its own sums
  int64_t i0, j0, p0;            // where the round begins
  int64_t rows, columns, depth;  // what there is of it

  SNUG_INLINE int64_t pieces() const { return std::max<int64_t>(1, Parts(depth, cut.depth)); }
  SNUG_INLINE int64_t piece_depth(int64_t piece) const { return std::min(cut.depth, depth - piece * cut.depth); }
  // The strip from row i on, and the panel from column j on, of one piece.
  SNUG_INLINE float* strip(int64_t piece, int64_t i) const {
    return a + piece * cut.rows * cut.depth + i * piece_depth(piece);
  }
  SNUG_INLINE float* panel(int64_t piece, int64_t j) const {
    return b + piece * cut.columns * cut.depth + j * piece_depth(piece);
  }
};

// A rectangle of a round's block, from its row i and its column j on.
struct Rectangle {
  int64_t i, j, rows, columns;
};

// A strip or a panel in the order in which they are packed: both kinds evenly mixed. Threads take equal runs of that
// order, so each packs about those strips and panels that its own part of c is made of: what another core has just
// written is slow to read.
struct PackedUnit {
  PackedUnit(int64_t position, int64_t strips, int64_t panels)
      : before(position * strips / (strips + panels)),
        is_strip((position + 1) * strips / (strips + panels) > before),
        index(is_strip ? before : position - before) {}

  int64_t before;  // strips before this position
  bool is_strip;
  int64_t index;
};

template <Isa kIsa, class T>
SNUG_INLINE void PackUnit(IsaConstant<kIsa> /*isa*/, const Round<T>& r, int64_t piece, const PackedUnit& unit) {
  const int64_t p = r.p0 + piece * r.cut.depth;
  const int64_t depth = r.piece_depth(piece);
  if (unit.is_strip) {
    const int64_t i = unit.index * kStripMultiple;
    PackStrips<GemmTile<kIsa, float>::kRows>(std::min(kStripMultiple, r.rows - i), depth, r.call.a.At(r.i0 + i, p),
                                             r.strip(piece, i));
  } else {
    const int64_t j = unit.index * kPanel<float>;
    PackPanelsOf<GemmTile<kIsa, float>::kColumns>(depth, std::min(kPanel<float>, r.columns - j),
                                                  r.call.b.At(p, r.j0 + j), r.panel(piece, j));
  }
}

// Adds one piece's products to the sums of a rectangle, which begin at `sums`.
template <Isa kIsa, class T>
SNUG_INLINE void MultiplyPiece(IsaConstant<kIsa> isa, const Round<T>& r, const Rectangle& at, int64_t piece,
                               float* sums, int64_t sums_row) {
  using Tile = GemmTile<kIsa, float>;
  constexpr int64_t kStrip = Tile::kRows;
  const int64_t depth = r.piece_depth(piece);
  const bool accumulate = r.p0 > 0 || piece > 0;
  for (int64_t j = 0; j < at.columns; j += Tile::kColumns) {
    const float* panel = r.panel(piece, at.j + j);
    const int64_t columns = std::min(Tile::kColumns, at.columns - j);
    for (int64_t i = 0; i < at.rows; i += kStrip) {
      const int64_t rows = std::min(kStrip, at.rows - i);
      const StridedMatrix<float> strip = {r.strip(piece, at.i + i), 1, kStrip};
      float* c = sums + i * sums_row + j;
      if (columns == Tile::kColumns || r.sums != nullptr) {
        MultiplyTile(isa, rows, depth, strip, panel, Tile::kColumns, c, sums_row, accumulate);
        continue;
      }
      // What follows these columns in c is the next row's.
      alignas(64) float edge[kStrip * Tile::kColumns] = {};
      for (int64_t l = 0; l < rows && accumulate; ++l) {
        std::copy_n(c + l * sums_row, columns, edge + l * Tile::kColumns);
      }
      MultiplyTile(isa, rows, depth, strip, panel, Tile::kColumns, edge, Tile::kColumns, accumulate);
      for (int64_t l = 0; l < rows; ++l) std::copy_n(edge + l * Tile::kColumns, columns, c + l * sums_row);
    }
  }
}

template <Isa kIsa, class T>
SNUG_INLINE void MultiplyRectangle(IsaConstant<kIsa> isa, const Round<T>& r, const Rectangle& at) {
  T* c = r.call.c + (r.i0 + at.i) * r.call.n + r.j0 + at.j;
  float* sums = r.sums + at.i * r.cut.columns + at.j;
  int64_t sums_row = r.cut.columns;
  if constexpr (std::is_same_v<T, float>) {
    sums = c;
    sums_row = r.call.n;
  }
  for (int64_t piece = 0; piece < r.pieces(); ++piece) MultiplyPiece(isa, r, at, piece, sums, sums_row);
  const bool last = r.p0 + r.depth == r.call.k;
  const T* bias = r.call.bias == nullptr ? nullptr : r.call.bias + r.j0 + at.j;
  const bool finished = std::is_same_v<T, float> && bias == nullptr && r.activation == Activation::kIdentity;
  if (last && !finished) FinishProduct<T>(r.activation, at.rows, at.columns, sums, sums_row, bias, c, r.call.n);
}

template <class T>
void Pack(int threads, const Round<T>& r) {
  const int64_t strips = Parts(r.rows, kStripMultiple), panels = Parts(r.columns, kPanel<float>);
  ParallelFor(threads, r.pieces() * (strips + panels), 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) {
        PackUnit(isa, r, i % r.pieces(), PackedUnit(i / r.pieces(), strips, panels));
      }
    });
  });
}

// How threads share a block of c: in a grid, of which each takes one rectangle of rows and columns.
struct Grid {
  // The grid whose largest part takes the least time, as far as that follows from its size: what is multiplied, and
  // what is read of strips and panels, of which other cores have packed most.
  Grid(int threads, int64_t rows, int64_t columns) {
    constexpr int64_t kProductsPerRead = 12;  // multiply-adds in the time of reading a number from another core's cache
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t down = 1; down <= threads; ++down) {
      if (threads % down != 0) continue;
      const int64_t across = threads / down;
      const int64_t part_rows = Parts(Parts(rows, kStripMultiple), down) * kStripMultiple;
      const int64_t part_columns = Parts(Parts(columns, kPanel<float>), across) * kPanel<float>;
      const int64_t cost = part_rows * part_columns + kProductsPerRead * (part_rows + part_columns);
      if (cost >= least) continue;
      least = cost;
      rows_of_parts = down;
      columns_of_parts = across;
    }
  }

  int64_t rows_of_parts = 1, columns_of_parts = 1;
};

// The `part`-th of `parts` nearly equal runs of `size`, in units.
struct Run {
  Run(int64_t part, int64_t parts, int64_t size, int64_t unit)
      : begin(Parts(size, unit) * part / parts * unit),
        end(std::min(size, Parts(size, unit) * (part + 1) / parts * unit)) {}
  int64_t begin, end;
};

template <class T>
void Multiply(int threads, const Round<T>& r) {
  const Grid grid(threads, r.rows, r.columns);
  const int64_t task_columns = EqualPart(r.columns, kTaskColumns, kPanel<float>);
  ParallelFor(threads, grid.rows_of_parts * grid.columns_of_parts, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t part = begin; part < end; ++part) {
        const Run rows(part / grid.columns_of_parts, grid.rows_of_parts, r.rows, kStripMultiple);
        const Run columns(part % grid.columns_of_parts, grid.columns_of_parts, r.columns, kPanel<float>);
        for (int64_t j = columns.begin; j < columns.end; j += task_columns) {
          for (int64_t i = rows.begin; i < rows.end; i += kTaskRows) {
            MultiplyRectangle(isa, r,
                              {i, j, std::min(kTaskRows, rows.end - i), std::min(task_columns, columns.end - j)});
          }
        }
      }
    });
  });
}

}  // namespace

template <class T>
int64_t BlockedGemmWorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return Cut(m, n, k, !std::is_same_v<T, float>).bytes();
}

template <class T>
void BlockedGemm(int threads, const GemmCall<T>& call, Activation activation, void* workspace) {
  const Cut cut(call.m, call.n, call.k, !std::is_same_v<T, float>);
  float* a = static_cast<float*>(workspace);
  float* b = a + cut.a_floats();
  float* sums = cut.sums == 0 ? nullptr : b + cut.b_floats();
  const int64_t round_depth = cut.depth * cut.pieces;
  for (int64_t j = 0; j < call.n; j += cut.columns) {
    for (int64_t i = 0; i < call.m; i += cut.rows) {
      int64_t p = 0;
      do {  // once where there is nothing to add up, too: c is the bias then
        const Round<T> round = {.call = call,
                                .activation = activation,
                                .cut = cut,
                                .a = a,
                                .b = b,
                                .sums = sums,
                                .i0 = i,
                                .j0 = j,
                                .p0 = p,
                                .rows = std::min(cut.rows, call.m - i),
                                .columns = std::min(cut.columns, call.n - j),
                                .depth = std::min(round_depth, call.k - p)};
        Pack(threads, round);
        Multiply(threads, round);
        p += round_depth;
      } while (p < call.k);
    }
  }
}

template int64_t BlockedGemmWorkspaceBytes<float>(int64_t, int64_t, int64_t);
template int64_t BlockedGemmWorkspaceBytes<BFloat16>(int64_t, int64_t, int64_t);
template void BlockedGemm(int, const GemmCall<float>&, Activation, void*);
template void BlockedGemm(int, const GemmCall<BFloat16>&, Activation, void*);

}  // namespace snug::core
