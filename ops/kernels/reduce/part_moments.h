// Means and variances of the columns of a matrix that a kernel makes part by part: each part's rows are measured while
// caches have them, which saves a sweep over memory. A part leaves each column's mean and the sum of the squares of
// what is left without it; in the end these are put together in double, in the sequence of the parts. So bits depend on
// how the rows are cut into parts, which is to follow from the shape alone.
#pragma once

#include <algorithm>
#include <cstddef>
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
    using Vector = typename GemmTile<kIsa, float>::Vector;
    constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes, kTogether = 4;
    float* const mean = sums_ + part * 2 * columns_ + first;
    int64_t c = 0;
    for (; c + kTogether * kLanes <= count; c += kTogether * kLanes) {
      MeasureNumbers<Vector, kTogether>(c, rows, row_at, mean);
    }
    for (; c + kLanes <= count; c += kLanes) MeasureNumbers<Vector, 1>(c, rows, row_at, mean);
    for (; c < count; ++c) MeasureNumbers<float, 1>(c, rows, row_at, mean);
  }

  // Sets what is asked for.
  void PutTogether(int threads) const;

 private:
  static int64_t CountFloats(int64_t parts) {
    constexpr int64_t kLine = 16;
    return (parts + kLine - 1) / kLine * kLine;
  }

  // Measures the columns [c, c + kNumbers) where Number is float, or as many vectors. Numbers are measured from those
  // of a row, in blocks of a few rows: what a block's squares have beside the variance is then at most as many times
  // that as the block has rows, which costs floats 3 of their 7 digits at most, whatever that row is.
  template <class Number, int kNumbers, class RowAt>
  SNUG_INLINE void MeasureNumbers(int64_t c, int64_t rows, const RowAt& row_at, float* mean) const {
    constexpr size_t kFloatBytes = sizeof(float);
    constexpr int64_t kBlock = 96, kLanes = sizeof(Number) / kFloatBytes;
    Number means[kNumbers] = {}, rests[kNumbers] = {};  // of the blocks so far: the mean, the squares without it
    for (int64_t first = 0; first < rows; first += kBlock) {
      const int64_t count = std::min(kBlock, rows - first);
      Number shift[kNumbers], sum[kNumbers], squares[kNumbers];
#pragma GCC unroll 4
      for (int v = 0; v < kNumbers; ++v) {
        LoadScalarOrVector(row_at(first) + c + v * kLanes, shift[v]);
        sum[v] = squares[v] = Number{};
      }
      for (int64_t i = first + 1; i < first + count; ++i) {
        const auto* const row = row_at(i) + c;
#pragma GCC unroll 4
        for (int v = 0; v < kNumbers; ++v) {
          Number x;
          LoadScalarOrVector(row + v * kLanes, x);
          x -= shift[v];
          sum[v] += x;
          squares[v] += x * x;
        }
      }
      const float share = static_cast<float>(count) / static_cast<float>(first + count);
      const float between = static_cast<float>(first) * share;
#pragma GCC unroll 4
      for (int v = 0; v < kNumbers; ++v) {
        const Number rest = sum[v] / static_cast<float>(count);
        const Number own = shift[v] + rest, left = squares[v] - sum[v] * rest;
        if (first == 0) {
          means[v] = own;
          rests[v] = left;
        } else {
          const Number off = own - means[v];
          means[v] += off * share;
          rests[v] += left + off * off * between;
        }
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kNumbers; ++v) {
      StoreScalarOrVector(means[v], mean + c + v * kLanes);
      StoreScalarOrVector(rests[v], mean + columns_ + c + v * kLanes);
    }
  }

  const int64_t parts_, columns_;
  const ColumnMoments asked_;
  float* const sums_;  // [parts][2][columns]
};

// Measures a matrix [rows, columns] that is there already, in a sweep over it.
void MeasureColumns(int threads, int64_t rows, int64_t columns, const float* data, const ColumnMoments& asked);
int64_t MeasureColumnsBytes(int64_t rows, int64_t columns);

}  // namespace snug::core
