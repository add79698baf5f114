#include "ops/kernels/matmul/blocked.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/grid.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kernels/matmul/wide_blocks.h"

namespace snug::core {
namespace {

// A thread goes through its part of c in blocks of so many rows and columns, at most. They are smaller where sums are
// kept apart, because these take as many floats, and in small products, whose network may not have much more memory
// than their operands.
struct BlockSize {
  int64_t rows, columns;
};
constexpr BlockSize kUsualBlock = {576, 1024}, kBlockWithSums = {288, 512}, kSmallBlock = {288, 256};
constexpr int64_t kSmallProduct = 1 << 25;  // multiply-adds
// Rows and columns are packed in pieces of so many entries along k: a panel of b (16 or 32 KB) then stays in the
// first-level cache while the strips of a go by.
constexpr int64_t kPieceDepth = 256;
// So many rows of a block are packed and multiplied at a time, by so many columns, for whose panels of b the
// second-level cache has room. Strips of a have the rows of a register tile: 8, 6 or 4, which all divide these.
constexpr int64_t kTaskRows = 24;
constexpr int64_t kTaskColumns = 512;
constexpr Grid::Units kUnits = {kTaskRows, kPanel<float>};

// How a thread's part of a product is cut. Everything follows from the product's size and the number of threads.
struct Cut {
  Cut(const Grid& grid, int64_t m, int64_t n, int64_t k, bool sums_apart)
      : Cut(grid.part_rows(), grid.part_columns(), k, sums_apart,
            m * n * k <= kSmallProduct ? kSmallBlock
            : sums_apart               ? kBlockWithSums
                                       : kUsualBlock) {}
  Cut(int64_t part_rows, int64_t part_columns, int64_t k, bool sums_apart, const BlockSize& most)
      : rows(EqualPart(part_rows, most.rows, kTaskRows)),
        columns(EqualPart(part_columns, most.columns, kPanel<float>)),
        depth(EqualPart(k, kPieceDepth, 8)),
        packed_rows(columns <= kTaskColumns ? kTaskRows : rows),
        sums(sums_apart ? rows * columns : 0) {}

  int64_t floats() const { return (packed_rows + columns) * depth + sums; }

  int64_t rows, columns, depth;  // of a block of c, and of a piece along k
  // Rows whose strips are kept at a time: where tasks have all columns of a block, each packs its own over the last
  // one's.
  int64_t packed_rows;
  int64_t sums;  // floats for sums of a block of c, where c itself cannot hold them
};

template <class T>
SNUG_INLINE float AsFloat(T x) {
  return static_cast<float>(x);
}

// Says whether lines that are `stride` numbers apart share a set of the first-level cache, and push each other out.
template <class T>
constexpr bool ShareASet(int64_t stride) {
  return stride * static_cast<int64_t>(sizeof(T)) % 4096 == 0;
}

// Packs a [rows, depth] into strips [depth][kStrip]. Missing rows of the last one are never read.
template <int kStrip, class T>
SNUG_INLINE void PackStrips(int64_t rows, int64_t depth, StridedMatrix<T> a, float* strips) {
  int64_t i = 0;
  if (a.row == 1) {
    // A line of memory has entries of several strips: all of them take theirs before the next one is read. Each is in
    // another page, as a rule, so no processor foresees which comes next: it is asked for.
    constexpr int64_t kAhead = 16, kOfLine = 64 / static_cast<int64_t>(sizeof(T));
    const int64_t whole = rows / kStrip;
    for (int64_t p = 0; p < depth; ++p) {
      const T* later = a.data + std::min(p + kAhead, depth - 1) * a.col;
      for (int64_t l = 0; l < rows; l += kOfLine) __builtin_prefetch(later + l);
      __builtin_prefetch(later + rows - 1);
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
  int64_t j = 0;
  if (b.col == 1) {
    // Rows are further apart than a page, as a rule: several panels take their parts of a row, which is asked for
    // before, so that lines of memory come one after the other.
    constexpr int64_t kTogether = 128, kAhead = 8, kOfLine = 64 / static_cast<int64_t>(sizeof(T));
    for (; j + kTogether <= columns; j += kTogether, panels += kTogether * depth) {
      for (int64_t p = 0; p < depth; ++p) {
        const T* from = b.data + p * b.row + j;
        const T* later = b.data + std::min(p + kAhead, depth - 1) * b.row + j;
        for (int64_t l = 0; l < kTogether; l += kOfLine) __builtin_prefetch(later + l);
        for (int64_t l = 0; l < kTogether; l += kWidth) {
          float* to = panels + l * depth + p * kWidth;
          for (int64_t c = 0; c < kWidth; ++c) to[c] = AsFloat(from[l + c]);
        }
      }
    }
  }
  for (; j < columns; j += kWidth, panels += kWidth * depth) {
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

// What a thread multiplies at once: a block of c, by a piece along k.
template <class A, class B, class C>
struct Round {
  const GemmCall<A, B, C>& call;
  Activation activation;
  float* strips;  // of `packed_rows` rows
  int64_t packed_rows;
  float* panels;
  float* sums;  // of the block, [rows, sums_row]
  int64_t sums_row;
  int64_t i0, j0, p0;            // where the round begins
  int64_t rows, columns, depth;  // what there is of it

  SNUG_INLINE bool first() const { return p0 == 0; }
  SNUG_INLINE bool last() const { return p0 + depth == call.k; }
  SNUG_INLINE float* strips_of(int64_t row) const { return strips + row % packed_rows * depth; }
};

// Rows of a round's block, and columns of it.
struct Rectangle {
  int64_t i, j, rows, columns;
};

// Adds the products of a rectangle to its sums. Rows of a that lie in memory one number after the other, as floats, are
// read there, as their few streams need no packing, unless they push each other out of the cache.
template <bool kPacked, Isa kIsa, class A, class B, class C>
SNUG_INLINE void MultiplyRectangle(IsaConstant<kIsa> isa, const Round<A, B, C>& r, const Rectangle& at) {
  using Tile = GemmTile<kIsa, float>;
  constexpr int64_t kStrip = Tile::kRows;
  const auto strip_at = [&](int64_t i) SNUG_LAMBDA {
    if constexpr (kPacked) {
      return StridedMatrix<float>{r.strips_of(at.i) + i * r.depth, 1, kStrip};
    } else {
      const StridedMatrix<A>& a = r.call.a;
      return StridedMatrix<float>{a.data + (r.i0 + at.i + i) * a.row + r.p0, a.row, 1};
    }
  };
  float* const sums = r.sums + at.i * r.sums_row + at.j;
  const bool accumulate = !r.first();
  for (int64_t j = 0; j < at.columns; j += Tile::kColumns) {
    const float* panel = r.panels + (at.j + j) * r.depth;
    const int64_t columns = std::min(Tile::kColumns, at.columns - j);
    for (int64_t i = 0; i < at.rows; i += kStrip) {
      const int64_t rows = std::min(kStrip, at.rows - i);
      const StridedMatrix<float> strip = strip_at(i);
      float* c = sums + i * r.sums_row + j;
      if (columns == Tile::kColumns || !std::is_same_v<C, float>) {
        MultiplyTile(isa, rows, r.depth, strip, panel, Tile::kColumns, c, r.sums_row, accumulate);
        continue;
      }
      // What follows these columns in c is the next row's.
      alignas(64) float edge[kStrip * Tile::kColumns] = {};
      for (int64_t l = 0; l < rows && accumulate; ++l) {
        std::copy_n(c + l * r.sums_row, columns, edge + l * Tile::kColumns);
      }
      MultiplyTile(isa, rows, r.depth, strip, panel, Tile::kColumns, edge, Tile::kColumns, accumulate);
      for (int64_t l = 0; l < rows; ++l) std::copy_n(edge + l * Tile::kColumns, columns, c + l * r.sums_row);
    }
  }
  if (!r.last() || SumsAreAll(r.call, r.activation)) return;
  // A function of its own: inlined, it would take registers from the loops above.
  WithIsa([&](auto now) SNUG_LAMBDA {
    FinishBlock(now, r.call, r.activation, r.i0 + at.i, r.j0 + at.j, at.rows, at.columns, sums, r.sums_row);
  });
}

template <Isa kIsa, class A, class B, class C>
SNUG_INLINE void MultiplyRound(IsaConstant<kIsa> isa, const Round<A, B, C>& r) {
  using Tile = GemmTile<kIsa, float>;
  PackPanelsOf<Tile::kColumns>(r.depth, r.columns, r.call.b.At(r.p0, r.j0), r.panels);
  const int64_t task_columns = EqualPart(r.columns, kTaskColumns, kPanel<float>);
  for (int64_t j = 0; j < r.columns; j += task_columns) {
    for (int64_t i = 0; i < r.rows; i += kTaskRows) {
      const int64_t rows = std::min(kTaskRows, r.rows - i);
      const Rectangle at = {i, j, rows, std::min(task_columns, r.columns - j)};
      if constexpr (std::is_same_v<A, float>) {
        if (r.call.a.col == 1 && !ShareASet<float>(r.call.a.row)) {
          MultiplyRectangle<false>(isa, r, at);
          continue;
        }
      }
      if (j == 0) PackStrips<Tile::kRows>(rows, r.depth, r.call.a.At(r.i0 + i, r.p0), r.strips_of(i));
      MultiplyRectangle<true>(isa, r, at);
    }
  }
}

// Computes a thread's part of c.
template <Isa kIsa, class A, class B, class C>
SNUG_INLINE void MultiplyPart(IsaConstant<kIsa> isa, const GemmCall<A, B, C>& call, Activation activation,
                              const Cut& cut, const Run& rows, const Run& columns, float* workspace) {
  Round<A, B, C> r = {.call = call,
                      .activation = activation,
                      .strips = workspace,
                      .packed_rows = cut.packed_rows,
                      .panels = workspace + cut.packed_rows * cut.depth,
                      .sums = workspace + (cut.packed_rows + cut.columns) * cut.depth,
                      .sums_row = cut.columns};
  for (r.j0 = columns.begin; r.j0 < columns.end; r.j0 += cut.columns) {
    for (r.i0 = rows.begin; r.i0 < rows.end; r.i0 += cut.rows) {
      r.rows = std::min(cut.rows, rows.end - r.i0);
      r.columns = std::min(cut.columns, columns.end - r.j0);
      if constexpr (std::is_same_v<C, float>) {
        r.sums = call.c + r.i0 * call.n + r.j0;
        r.sums_row = call.n;
      }
      r.p0 = 0;
      do {  // once where there is nothing to add up, too: c is the bias then
        r.depth = std::min(cut.depth, call.k - r.p0);
        MultiplyRound(isa, r);
        r.p0 += cut.depth;
      } while (r.p0 < call.k);
    }
  }
}

// What a thread needs for its part, in either way.
template <class C>
int64_t FloatsOfPart(const Grid& grid, const Cut& cut, int64_t m, int64_t n, int64_t k) {
  if (!wide_blocks::AreFor(m, n, k)) return cut.floats();
  return std::max(cut.floats(),
                  wide_blocks::Floats({grid.part_rows(), grid.part_columns()}, k, !std::is_same_v<C, float>));
}

}  // namespace

template <class C>
int64_t BlockedGemmWorkspaceBytes(int threads, int64_t m, int64_t n, int64_t k) {
  const Grid grid(threads, m, n, kUnits);
  const Cut cut(grid, m, n, k, !std::is_same_v<C, float>);
  return grid.parts() * FloatsOfPart<C>(grid, cut, m, n, k) * static_cast<int64_t>(sizeof(float));
}

template <class A, class B, class C>
void BlockedGemm(int threads, const GemmCall<A, B, C>& call, Activation activation, void* workspace) {
  const Grid grid(threads, call.m, call.n, kUnits);
  const Cut cut(grid, call.m, call.n, call.k, !std::is_same_v<C, float>);
  const int64_t of_part = FloatsOfPart<C>(grid, cut, call.m, call.n, call.k);
  ParallelFor(threads, grid.parts(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const Run rows = grid.RowsOf(part), columns = grid.ColumnsOf(part);
      float* const own = static_cast<float*>(workspace) + part * of_part;
      if (CurrentIsa() != Isa::kBaseline && wide_blocks::AreFor(call.m, call.n, call.k)) {
        wide_blocks::Multiply(call, activation,
                              {.row = rows.begin,
                               .rows = rows.end - rows.begin,
                               .column = columns.begin,
                               .columns = columns.end - columns.begin,
                               .most = {grid.part_rows(), grid.part_columns()}},
                              own);
        continue;
      }
      WithIsa([&](auto isa) SNUG_LAMBDA { MultiplyPart(isa, call, activation, cut, rows, columns, own); });
    }
  });
}

template int64_t BlockedGemmWorkspaceBytes<float>(int, int64_t, int64_t, int64_t);
template int64_t BlockedGemmWorkspaceBytes<BFloat16>(int, int64_t, int64_t, int64_t);
template void BlockedGemm(int, const GemmCall<float>&, Activation, void*);
template void BlockedGemm(int, const GemmCall<BFloat16>&, Activation, void*);
template void BlockedGemm(int, const GemmCall<BFloat16, float, BFloat16>&, Activation, void*);
template void BlockedGemm(int, const GemmCall<BFloat16, BFloat16, float>&, Activation, void*);

}  // namespace snug::core
