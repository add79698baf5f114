// Means and variances of the columns of a matrix that a kernel makes part by part: each part's rows are measured while
// caches have them, which saves a sweep over memory. A part leaves each column's mean and the sum of the squares of
// what is left without it; in the end these are put together in double, in the sequence of the parts. So bits depend on
// how the rows are cut into parts, which is to follow from the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {

// Asks a kernel for the mean and the variance (with 1 / rows) of each column of its result. Null: nothing is asked for.
struct ColumnMoments {
  float *mean = nullptr, *var = nullptr;
  float* workspace = nullptr;  // as large as the kernel says
};

class PartMoments {
 public:
  PartMoments(int64_t parts, int64_t columns, const ColumnMoments& asked)
      : parts_(parts),
        columns_(columns),
        asked_(asked),
        sums_(asked.workspace == nullptr ? nullptr : asked.workspace + CountFloats(parts)) {}
  static int64_t WorkspaceBytes(int64_t parts, int64_t columns) {
    return (CountFloats(parts) + parts * 2 * columns) * static_cast<int64_t>(sizeof(float));
  }

  bool asked() const { return asked_.mean != nullptr; }

  // Says how many rows a part has; before they are put together.
  void SetRows(int64_t part, int64_t rows) const { asked_.workspace[part] = static_cast<float>(rows); }

  // Measures the columns [first, first + count) of a part, in `rows` rows, at least one; row_at(i) is where the first
  // of these columns lies in the i-th. Threads may measure different columns of a part.
  template <Isa kIsa, class RowAt>
  SNUG_INLINE void Measure(int64_t part, int64_t first, int64_t count, int64_t rows, const RowAt& row_at) const {
    constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes, kTogether = 4;
    float* const mean = sums_ + part * 2 * columns_ + first;
    int64_t c = 0;
    for (; c + kTogether * kLanes <= count; c += kTogether * kLanes) {
      MeasureVectors<kIsa, kTogether>(c, rows, row_at, mean);
    }
    for (; c + kLanes <= count; c += kLanes) MeasureVectors<kIsa, 1>(c, rows, row_at, mean);
    for (; c < count; ++c) MeasureColumn(c, rows, row_at, mean);
  }

  // Sets what is asked for.
  void PutTogether(int threads) const;

 private:
  static int64_t CountFloats(int64_t parts) {
    constexpr int64_t kLine = 16;
    return (parts + kLine - 1) / kLine * kLine;
  }

  // Numbers are measured from the first row's, which is near enough to the mean that nothing cancels.
  template <Isa kIsa, int kVectors, class RowAt>
  SNUG_INLINE void MeasureVectors(int64_t c, int64_t rows, const RowAt& row_at, float* mean) const {
    using Vector = typename GemmTile<kIsa, float>::Vector;
    constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
    Vector shift[kVectors], sum[kVectors], squares[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      LoadFloats(row_at(0) + c + v * kLanes, shift[v]);
      sum[v] = squares[v] = Vector{};
    }
    for (int64_t i = 1; i < rows; ++i) {
      const auto* const row = row_at(i) + c;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Vector x;
        LoadFloats(row + v * kLanes, x);
        x -= shift[v];
        sum[v] += x;
        squares[v] += x * x;
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vector rest = sum[v] / static_cast<float>(rows);
      StoreFloats(shift[v] + rest, mean + c + v * kLanes);
      StoreFloats(squares[v] - sum[v] * rest, mean + columns_ + c + v * kLanes);
    }
  }

  template <class RowAt>
  SNUG_INLINE void MeasureColumn(int64_t c, int64_t rows, const RowAt& row_at, float* mean) const {
    const auto shift = static_cast<float>(row_at(0)[c]);
    float sum = 0, squares = 0;
    for (int64_t i = 1; i < rows; ++i) {
      const float x = static_cast<float>(row_at(i)[c]) - shift;
      sum += x;
      squares += x * x;
    }
    const float rest = sum / static_cast<float>(rows);
    mean[c] = shift + rest;
    mean[columns_ + c] = squares - sum * rest;
  }

  const int64_t parts_, columns_;
  const ColumnMoments asked_;
  float* const sums_;  // [parts][2][columns]
};

// Measures a matrix [rows, columns] that is there already, in a sweep over it.
void MeasureColumns(int threads, int64_t rows, int64_t columns, const float* data, const ColumnMoments& asked);
int64_t MeasureColumnsBytes(int64_t rows, int64_t columns);

}  // namespace snug::core
