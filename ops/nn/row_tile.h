// Short rows, kTileRows of them at a time, each in a lane of its own: the partial results of a row's reduction
// (ops/kit/lanes.h) would be more than its elements. LoadRows turns rows into the columns of a tile, StoreRows turns
// them back, both in registers; between the two, loops go over a tile's columns. Of longer rows only the partial
// results are turned (SumRows). For use inside WithIsa bodies.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/base/parallel.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"

namespace snug::core {

inline constexpr int64_t kShortRow = 64;  // a tile has no more columns
inline constexpr int64_t kTileRows = 16;

// Element i of row j is at[i * kTileRows + j].
template <class A>
struct RowTile {
  alignas(64) A at[kShortRow * kTileRows];
};

// Calls body(instruction set, first row, number of rows) for all rows, kTileRows at a time. A thread's piece of work
// has so many rows, or a few more.
template <class Body>
void ForEachRowTile(int threads, int64_t rows, int64_t rows_per_chunk, Body body) {
  const int64_t chunk = (rows_per_chunk + kTileRows - 1) / kTileRows * kTileRows;
  ParallelFor(threads, rows, chunk, [=](int64_t begin, int64_t end) {
    WithIsa([=](auto isa) SNUG_LAMBDA {
      for (int64_t row = begin; row < end; row += kTileRows) body(isa, row, std::min(kTileRows, end - row));
    });
  });
}

// How many longer rows are best done together, so that they stay in the first-level cache.
inline int64_t RowsTogether(int64_t n) {
  return std::clamp<int64_t>((1 << 13) / std::max<int64_t>(1, n), 1, kTileRows);
}

// Does the rows [begin, end) of n elements: short ones by tile(first row, number of rows), longer ones by rows(the
// same). Both are given kTileRows at most.
template <class Rows, class Tile>
SNUG_INLINE void DoRows(int64_t n, int64_t begin, int64_t end, Rows rows, Tile tile) {
  if (n <= kShortRow) {
    for (int64_t row = begin; row < end; row += kTileRows) tile(row, std::min(kTileRows, end - row));
    return;
  }
  const int64_t together = RowsTogether(n);
  for (int64_t row = begin; row < end; row += together) rows(row, std::min(together, end - row));
}

// Fills a tile with `count` rows of n elements, n <= kShortRow, which lie `stride` apart in an array that ends at
// `end`. Rows that are missing become zeros.
template <Isa kIsa, class T, class A>
SNUG_INLINE void LoadRows(const T* rows, int64_t stride, int64_t n, int64_t count, const T* end, A* tile) {
  constexpr int64_t kSide = kSquare<kIsa, A>;
  const int64_t reach = std::max(n, kSide);  // so much of a row is read
  T copy[kTileRows * kShortRow];
  if (count < kTileRows || end - rows < (kTileRows - 1) * stride + reach) {
    std::fill_n(copy, kTileRows * reach, static_cast<T>(A(0)));
    for (int64_t j = 0; j < count; ++j) std::copy_n(rows + j * stride, n, copy + j * reach);
    rows = copy;
    stride = reach;
  }
  for (int64_t row = 0; row < kTileRows; row += kSide) {
    for (int64_t column = 0;; column = std::min(column + kSide, n - kSide)) {  // the last square may overlap another
      TransposeSquare<kSide, kSide>(rows + row * stride + column, stride, tile + column * kTileRows + row, kTileRows);
      if (column + kSide >= n) break;
    }
  }
}

// Writes `count` rows of n elements, n <= kShortRow, from a tile. Between rows that lie further apart than they are
// long it may leave anything.
template <Isa kIsa, class A, class T>
SNUG_INLINE void StoreRows(const A* tile, int64_t n, int64_t count, T* rows, int64_t stride) {
  constexpr int64_t kSide = kSquare<kIsa, A>;
  T* const end = rows + (count - 1) * stride + n;
  for (int64_t row = 0; row < kTileRows; row += kSide) {
    for (int64_t column = 0;; column = std::min(column + kSide, n - kSide)) {
      alignas(64) A square[kSide * kSide];
      TransposeSquare<kSide, kSide>(tile + column * kTileRows + row, kTileRows, square, kSide);
      for (int64_t j = 0; j < kSide && row + j < count; ++j) {
        T piece[kSide];
        SNUG_EACH_OF_N
        for (int64_t i = 0; i < kSide; ++i) piece[i] = static_cast<T>(square[j * kSide + i]);
        T* to = rows + (row + j) * stride + column;
        if (end - to >= kSide) {  // what it writes behind a row of less than kSide is written next
          std::memcpy(to, piece, sizeof(piece));
        } else {
          std::copy_n(piece, n, to);
        }
      }
      if (column + kSide >= n) break;
    }
  }
}

// Sets sums[j], for each row j of a tile, to the sum of element(i, i * kTileRows + j) over its elements i < n.
template <class A, class Element>
SNUG_INLINE void SumTile(int64_t n, A* sums, Element element) {
  SNUG_EACH_OF_N
  for (int64_t j = 0; j < kTileRows; ++j) sums[j] = A(0);
  for (int64_t i = 0; i < n; ++i) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) sums[j] += element(i, i * kTileRows + j);
  }
}

// Leaves partial sums of element(i), i < n, which is kSums numbers: lanes[s * kTileRows] and so on are those of the
// s-th.
template <int kSums, class A, class Element>
SNUG_INLINE void PartialSums(int64_t n, Element element, A* lanes) {
  constexpr int64_t kWide = 2 * kTileRows;
  A wide[kSums][kWide];
  const auto add = [&](int64_t i, int64_t j) SNUG_LAMBDA {
    const std::array<A, kSums> values = element(i + j);
    for (size_t s = 0; s < kSums; ++s) wide[s][j] += values[s];
  };
  for (int s = 0; s < kSums; ++s) {
    for (int64_t j = 0; j < kWide; ++j) wide[s][j] = A(0);
  }
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < kWide; ++j) add(i, j);
  }
  const auto add_rest = [&]<int kWidth>(std::integral_constant<int, kWidth>) SNUG_LAMBDA {
    if (i + kWidth > n) return;
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kWidth; ++j) add(i, j);
    i += kWidth;
  };
  add_rest(std::integral_constant<int, 16>());
  add_rest(std::integral_constant<int, 8>());
  add_rest(std::integral_constant<int, 4>());
  for (int64_t j = 0; i + j < n; ++j) add(i, j);
  for (int s = 0; s < kSums; ++s) {
    SNUG_EACH_OF_N
    for (int64_t j = 0; j < kTileRows; ++j) lanes[s * kTileRows + j] = wide[s][j] + wide[s][j + kTileRows];
  }
}

// Sets sums[s * kTileRows + j], for `count` rows j, to the sum of the s-th of the kSums numbers element(j, i) over
// i < n. The partial sums of a row are added up for all rows together.
template <Isa kIsa, int kSums, class A, class Element>
SNUG_INLINE void SumRows(int64_t count, int64_t n, A* sums, Element element) {
  if constexpr (kSums > 1) {
    if (kIsa == Isa::kBaseline || n > kLaneBlock) {  // one by one: the baseline has few registers
      [&]<size_t... s>(std::index_sequence<s...>) SNUG_LAMBDA {
        (SumRows<kIsa, 1>(count, n, sums + s * kTileRows,
                          [=](int64_t j, int64_t i) SNUG_LAMBDA { return std::array<A, 1>{element(j, i)[s]}; }),
         ...);
      }
      (std::make_index_sequence<kSums>());
      return;
    }
  } else if (n > kLaneBlock) {
    for (int64_t j = 0; j < count; ++j) {
      sums[j] = static_cast<A>(LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return element(j, i)[0]; }));
    }
    return;
  }
  alignas(64) A partial[kSums][kTileRows * kTileRows] = {};
  for (int64_t j = 0; j < count; ++j) {
    alignas(64) A lanes[kSums * kTileRows];
    PartialSums<kSums>(
        n, [=](int64_t i) SNUG_LAMBDA { return element(j, i); }, static_cast<A*>(lanes));
    for (int s = 0; s < kSums; ++s) std::copy_n(lanes + s * kTileRows, kTileRows, partial[s] + j * kTileRows);
  }
  for (int s = 0; s < kSums; ++s) {
    RowTile<A> tile;
    const A* columns = tile.at;
    const A* rows = partial[s];
    LoadRows<kIsa>(rows, kTileRows, kTileRows, kTileRows, rows + kTileRows * kTileRows, tile.at);
    SumTile(kTileRows, sums + s * kTileRows, [=](int64_t, int64_t at) SNUG_LAMBDA { return columns[at]; });
  }
}

// Sets sums[i], for i < n, to the sum of element i of a tile's rows.
template <class A>
SNUG_INLINE void AddTileLanes(int64_t n, const A* tile, A* sums) {
  for (int64_t i = 0; i < n; ++i) {
    A sum = A(0);
    for (int64_t j = 0; j < kTileRows; ++j) sum += tile[i * kTileRows + j];
    sums[i] = sum;
  }
}

}  // namespace snug::core
