#include "ops/kernels/matmul/tall.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/needed_next.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace tall {
namespace {

// A part has no fewer rows, and all parts together no more sums than these (4 MB).
constexpr int64_t kLeastPart = 256;
constexpr int64_t kMostSums = 1 << 20;
constexpr int64_t kMostParts = 64;
// A task has a part's sums of so many rows and columns of c, at most.
constexpr int64_t kTaskRows = 192, kTaskColumns = 512;
constexpr int64_t kStripMultiple = 24;  // the rows of all register tiles divide it
// So many rows of both factors are multiplied at once, at most: a panel of b then stays in the first-level cache while
// the strips of a go by. All panels and strips stay in the second-level cache. The number is odd, as is that of all
// pieces of a part but the last one, so that packed panels begin in different sets of the first-level cache. A part of
// 256 to 262 rows, as there are many, is two pieces, where its columns are few.
constexpr int64_t kMostDepth = 131;
constexpr int64_t kPackedFloats = 48 << 10;
constexpr int64_t kLineBytes = 64;  // of a cache
constexpr int64_t kLineFloats = kLineBytes / static_cast<int64_t>(sizeof(float));

// How a product is cut. Everything follows from its size.
struct Cut {
  Cut(int64_t m, int64_t n, int64_t k)
      : swapped(m > n),
        rows(EqualPart(std::min(m, n), kTaskRows, kStripMultiple)),
        row_tasks(Parts(std::min(m, n), rows)),
        columns(ColumnsOfTask(std::min(m, n), std::max(m, n))),
        column_tasks(Parts(std::max(m, n), columns)),
        sums_of_task(rows * columns),
        sums(sums_of_task * row_tasks * column_tasks),
        parts(std::clamp<int64_t>(std::min(k / kLeastPart, kMostSums / std::max<int64_t>(1, sums)), 1, kMostParts)),
        depth((std::min(kMostDepth, (kPackedFloats - kLineFloats) / (rows + columns)) - 1) | 1) {}
  // Where sums are too many for several parts, tasks are 2, 4, 8 ... beside each other, so that threads have as many.
  static int64_t ColumnsOfTask(int64_t rows, int64_t columns) {
    int64_t tasks = Parts(columns, kTaskColumns);
    if (2 * rows * columns > kMostSums) tasks = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tasks)));
    return EqualPart(columns, Parts(columns, tasks), kPanel<float>);
  }

  bool swapped;             // it is the transpose of c that is computed, which has more columns than rows
  int64_t rows, row_tasks;  // of that
  int64_t columns, column_tasks;
  int64_t sums_of_task, sums;  // a part's
  int64_t parts;
  int64_t depth;
};

// One of the factors.
template <class T>
struct Factor {
  int64_t columns;
  const T* data;
  const TallRows<T>* made;  // in place of data
};

// So many columns of a factor, at most, are packed at once.
constexpr int64_t kMostColumns = std::max(kTaskRows, kTaskColumns);

// Copies columns [first, first + width) of rows [begin, begin + rows) into panels [rows][kWidth], one behind the other.
// Columns that the last one has not become 0.
template <Isa kIsa, int64_t kWidth, class T>
SNUG_INLINE void PackRows(const Factor<T>& factor, int64_t begin, int64_t rows, int64_t first, int64_t width,
                          float* panels) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  T scratch[kMostColumns];
  for (int64_t p = 0; p < rows; ++p) {
    const T* const from = factor.made == nullptr ? factor.data + (begin + p) * factor.columns + first
                                                 : factor.made->Row(begin + p, first, width, scratch);
    float* to = panels + p * kWidth;
    int64_t j = 0;
    for (; j + kWidth <= width; j += kWidth, to += rows * kWidth) {
      if constexpr (kWidth % kLanes == 0) {
#pragma GCC unroll 2
        for (int64_t l = 0; l < kWidth; l += kLanes) {
          Vector v;
          LoadFloats(from + j + l, v);
          StoreFloats(v, to + l);
        }
      } else {
        for (int64_t l = 0; l < kWidth; ++l) to[l] = static_cast<float>(from[j + l]);
      }
    }
    for (int64_t l = 0; j < width && l < kWidth; ++l) to[l] = j + l < width ? static_cast<float>(from[j + l]) : 0.0F;
  }
}

// Returns the rows of a factor's columns that come next. Of a factor that is made nothing is asked for.
template <class T>
SNUG_INLINE NeededNext NextOf(const Factor<T>& factor, int64_t row, int64_t rows, int64_t first, int64_t width) {
  if (factor.made != nullptr || rows == 0) return {};
  return NeededRows(factor.data + row * factor.columns + first, rows, width, factor.columns);
}

// Some rows of sums, to which products are added.
struct Sums {
  float* data;
  int64_t row;
  bool accumulate;    // otherwise they begin at 0
  const float* next;  // asked for: as many rows
};

// Some columns of a factor, packed or where they lie: the next row is so many numbers further.
struct Columns {
  const float* data;
  int64_t row;
};

// Adds the product of a strip and a panel, which is of so many vectors.
template <Isa kIsa, int kRows, int kVectors>
SNUG_INLINE void MultiplyRows(int64_t depth, Columns strip, Columns panel, Later coming, const Sums& sums) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = Vector{};
      if (sums.accumulate) LoadFloats(sums.data + r * sums.row + v * Tile::kLanes, sum[r][v]);
    }
  }
  if (sums.accumulate) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      for (int64_t l = 0; l < kVectors * Tile::kLanes; l += kLineFloats) {
        __builtin_prefetch(sums.next + r * sums.row + l, 1, 3);
      }
    }
  }
  const auto step = [&]() SNUG_LAMBDA {
    Vector b[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) LoadFloats(panel.data + v * Tile::kLanes, b[v]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float value = strip.data[r];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += value * b[v];
    }
    strip.data += strip.row;
    panel.data += panel.row;
  };
  int64_t p = 0;
  for (; p + Later::kSteps <= depth; p += Later::kSteps) {
    coming.Ask();
#pragma GCC unroll 2
    for (int64_t l = 0; l < Later::kSteps; ++l) step();
  }
  for (; p < depth; ++p) step();
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) StoreFloats(sum[r][v], sums.data + r * sums.row + v * Tile::kLanes);
  }
}

// The same for `rows` rows, at most kRows.
template <Isa kIsa, int kVectors, int kRows>
SNUG_INLINE void MultiplyStrip(int64_t rows, int64_t depth, Columns strip, Columns panel, Later coming,
                               const Sums& sums) {
  if (rows == kRows) return MultiplyRows<kIsa, kRows, kVectors>(depth, strip, panel, coming, sums);
  if constexpr (kRows > 1) MultiplyStrip<kIsa, kVectors, kRows - 1>(rows, depth, strip, panel, coming, sums);
}

// A rectangle of c.
struct Rectangle {
  int64_t i, j, rows, columns;
};

// Rows of the factors. Those up to `needed` are wanted when these are done.
struct Rows {
  int64_t begin, end, needed;
};

// Says whether factors are multiplied where they lie. Columns of longer rows lie in too few sets of the first-level
// cache.
template <Isa kIsa, class T>
bool LieWell(const Factor<T>& a, const Factor<T>& b, const Rectangle& at) {
  constexpr int64_t kLongestRow = 384;
  return std::is_same_v<T, float> && a.made == nullptr && b.made == nullptr && b.columns <= kLongestRow &&
         at.columns % GemmTile<kIsa, float>::kLanes == 0;
}

// A piece of the factors: the rectangle's columns of some rows.
struct Piece {
  int64_t depth;
  Columns strips, panels;          // the first ones
  int64_t next_strip, next_panel;  // from one to the next one, by column
};

// Packs a piece, unless it lies well.
template <Isa kIsa, class T>
SNUG_INLINE Piece PieceOf(const Factor<T>& a, const Factor<T>& b, const Rectangle& at, int64_t row, int64_t depth,
                          bool lie_well, float* strips, float* panels) {
  using Tile = GemmTile<kIsa, float>;
  if constexpr (std::is_same_v<T, float>) {
    if (lie_well) {
      return {.depth = depth,
              .strips = {a.data + row * a.columns + at.i, a.columns},
              .panels = {b.data + row * b.columns + at.j, b.columns},
              .next_strip = 1,
              .next_panel = 1};
    }
  }
  PackRows<kIsa, Tile::kRows>(a, row, depth, at.i, at.rows, strips);
  PackRows<kIsa, Tile::kColumns>(b, row, depth, at.j, at.columns, panels);
  return {.depth = depth,
          .strips = {strips, Tile::kRows},
          .panels = {panels, Tile::kColumns},
          .next_strip = depth,
          .next_panel = depth};
}

// Adds up the products of rows of the factors; the first sum of the rectangle is at `sums`.
template <Isa kIsa, class T>
SNUG_INLINE void AddPart(const Factor<T>& a, const Factor<T>& b, const Cut& cut, const Rectangle& at, const Rows& rows,
                         float* sums) {
  using Tile = GemmTile<kIsa, float>;
  alignas(kLineBytes) float packed[kPackedFloats];
  // Vectors of panels begin with lines, so that none lies in two.
  float* const panels = packed + Parts(cut.rows * cut.depth, kLineFloats) * kLineFloats;
  const bool lie_well = LieWell<kIsa>(a, b, at);
  const int64_t rows_of_part = rows.end - rows.begin;
  const int64_t rows_of_piece = Parts(rows_of_part, Parts(rows_of_part, cut.depth)) | 1;
  for (int64_t p = rows.begin; p < rows.end; p += rows_of_piece) {
    const Piece piece = PieceOf<kIsa>(a, b, at, p, std::min(rows_of_piece, rows.end - p), lie_well, packed, panels);
    const int64_t next = p + piece.depth;
    const int64_t next_rows = std::min(rows_of_piece, rows.needed - next);
    const std::array<NeededNext, 2> needed = {NextOf(b, next, next_rows, at.j, at.columns),
                                              NextOf(a, next, next_rows, at.i, at.rows)};
    AskingForNext coming(needed, Parts(at.columns, Tile::kColumns) * Parts(at.rows, Tile::kRows));
    for (int64_t j = 0; j < at.columns; j += Tile::kColumns) {
      for (int64_t i = 0; i < at.rows; i += Tile::kRows) {
        float* const here = sums + i * cut.columns + j;
        const float* const below =
            i + Tile::kRows < at.rows ? here + Tile::kRows * cut.columns : sums + j + Tile::kColumns;
        const Columns strip = {piece.strips.data + i * piece.next_strip, piece.strips.row};
        const Columns panel = {piece.panels.data + j * piece.next_panel, piece.panels.row};
        const Later later = coming.Take(Later::TimesOf(piece.depth), panel.data);
        const Sums to = {here, cut.columns, p > rows.begin, below};
        const int64_t of_strip = std::min<int64_t>(Tile::kRows, at.rows - i);
        if (at.columns - j <= Tile::kLanes) {
          MultiplyStrip<kIsa, 1, Tile::kRows>(of_strip, piece.depth, strip, panel, later, to);
        } else {
          MultiplyStrip<kIsa, 2, Tile::kRows>(of_strip, piece.depth, strip, panel, later, to);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tall

bool IsTall(int64_t m, int64_t n, int64_t k) {
  // With more sums the blocked product is as fast, which keeps one of each.
  constexpr int64_t kLargest = tall::kMostSums / 8;
  const tall::Cut cut(m, n, k);
  return cut.parts > 1 && cut.sums <= kLargest;
}

template <class T>
void MultiplyTall(int threads, const TallCall<T>& call, float* workspace) {
  SNUG_CHECK(call.k >= 1);
  const tall::Cut cut(call.m, call.n, call.k);
  tall::Factor<T> a = {call.m, call.a, nullptr}, b = {call.n, call.b, call.made_b};
  if (cut.swapped) std::swap(a, b);
  const int64_t tasks = cut.row_tasks * cut.column_tasks;
  ParallelFor(threads, cut.parts * tasks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t part = task / tasks;
      const int64_t of_part = task % tasks;
      const int64_t i = of_part % cut.row_tasks * cut.rows, j = of_part / cut.row_tasks * cut.columns;
      const tall::Rectangle at = {i, j, std::min(cut.rows, a.columns - i), std::min(cut.columns, b.columns - j)};
      const int64_t end = call.k * (part + 1) / cut.parts;
      // The next part is mostly this thread's, too; of several tasks another rectangle comes first.
      const tall::Rows rows = {call.k * part / cut.parts, end, tasks == 1 ? call.k : end};
      float* sums = workspace + part * cut.sums + of_part * cut.sums_of_task;
      WithIsa([&](auto isa) SNUG_LAMBDA { tall::AddPart<isa()>(a, b, cut, at, rows, sums); });
    }
  });
  const int64_t of_group = call.n / call.groups;
  const auto place = [&](int64_t column) SNUG_LAMBDA {  // in c's row, of a column of b
    return column % of_group * call.groups + column / of_group;
  };
  constexpr int64_t kChunk = 8;
  ParallelFor(threads, a.columns, kChunk, [&](int64_t begin, int64_t end) {
    WithIsa([&]() SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < b.columns; j += cut.columns) {
          const int64_t columns = std::min(cut.columns, b.columns - j);
          float* sums = workspace + (j / cut.columns * cut.row_tasks + i / cut.rows) * cut.sums_of_task +
                        i % cut.rows * cut.columns;
          for (int64_t part = 1; part < cut.parts; ++part) {
            const float* more = sums + part * cut.sums;
            SNUG_INDEPENDENT
            for (int64_t l = 0; l < columns; ++l) sums[l] += more[l];
          }
          if (cut.swapped) {
            T* const column = call.c + j * call.n + place(i);
            for (int64_t l = 0; l < columns; ++l) column[l * call.n] = static_cast<T>(sums[l]);
            continue;
          }
          T* const row = call.c + i * call.n;
          for (int64_t l = 0; l < columns;) {
            const int64_t q = (j + l) / of_group, end = std::min(columns, (q + 1) * of_group - j);
            for (; l < end; ++l) row[(j + l - q * of_group) * call.groups + q] = static_cast<T>(sums[l]);
          }
        }
      }
    });
  });
}

int64_t TallWorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  const tall::Cut cut(m, n, k);
  return cut.parts * cut.sums * static_cast<int64_t>(sizeof(float));
}

template void MultiplyTall(int, const TallCall<float>&, float*);
template void MultiplyTall(int, const TallCall<BFloat16>&, float*);

}  // namespace snug::core
