#include "ops/kernels/matmul/short_gemm.h"

#include <algorithm>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"

namespace snug::core {
namespace short_gemm {
namespace {

// A panel of x is multiplied in pieces of so many entries along k: 16 or 32 KB stay in the first-level cache.
constexpr int64_t kPieceDepth = 256;
// Rows of w whose sums are kept at a time. The rows of a register tile, 8, 6 or 4, divide this.
constexpr int64_t kBlockRows = 240;
constexpr int64_t kFinished = 16;  // rows of y that are written at once; sides of squares divide this

int64_t PaddedSamples(int64_t m) { return PaddedToPanels<float>(m); }
// Of one thread: x in panels, sums, and some rows of y.
int64_t Floats(int64_t m, int64_t k) { return (k + kBlockRows) * PaddedSamples(m) + kFinished * kBlockRows; }

// Packs x into panels [k][kColumns]; missing samples of the last one are 0.
template <Isa kIsa, class A>
SNUG_INLINE void PackSamples(int64_t m, int64_t k, StridedMatrix<A> x, float* panels) {
  constexpr int64_t kColumns = GemmTile<kIsa, float>::kColumns;
  constexpr int64_t kSide = kSquare<kIsa, float>;
  for (int64_t j = 0; j < m; j += kColumns, panels += kColumns * k) {
    const int64_t width = std::min(kColumns, m - j);
    if (width < kColumns) {
      PackPanel<float, kColumns>(k, width, StridedMatrix<A>{x.data + j * x.row, x.col, x.row}, panels);
      continue;
    }
    for (int64_t l = 0; l < kColumns; l += kSide) {
      TransposeRows<kSide, kSide>(k, x.data + (j + l) * x.row, x.row, panels + l, kColumns);
    }
  }
}

// Writes the columns of y that are rows of `sums`, which has m of `stride` in each.
template <Isa kIsa, class C>
SNUG_INLINE void Finish(int64_t m, int64_t rows, const float* sums, int64_t stride, Activation activation,
                        const float* bias, float* finished, C* y, int64_t y_row) {
  constexpr int64_t kSide = kSquare<kIsa, float>;
  for (int64_t i = 0; i < m; i += kFinished) {
    int64_t r = 0;
    for (; r + kSide <= rows; r += kSide) {
      for (int64_t l = 0; l < kFinished; l += kSide) {
        TransposeSquare<kSide, kSide>(sums + r * stride + i + l, stride, finished + l * kBlockRows + r, kBlockRows);
      }
    }
    for (; r < rows; ++r) {
      for (int64_t l = 0; l < kFinished; ++l) finished[l * kBlockRows + r] = sums[r * stride + i + l];
    }
    // A function of its own: inlined, it would take registers from the product's loops.
    WithIsa([&](auto isa) SNUG_LAMBDA {
      FinishProduct(isa, activation, std::min(kFinished, m - i), rows, static_cast<const float*>(finished), kBlockRows,
                    bias, y + i * y_row, y_row);
    });
  }
}

template <Isa kIsa, class A, class C>
SNUG_INLINE void MultiplyPart(IsaConstant<kIsa> isa, const GemmCall<A, float, C>& call, Activation activation,
                              int64_t begin, int64_t end, float* workspace) {
  using Tile = GemmTile<kIsa, float>;
  const int64_t m = call.m, k = call.k, padded = PaddedSamples(m);
  float* const panels = workspace;
  float* const sums = panels + k * padded;
  float* const finished = sums + kBlockRows * padded;
  PackSamples<kIsa>(m, k, call.a, panels);
  for (int64_t row = begin; row < end; row += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, end - row);
    int64_t p = 0;
    do {  // once where there is nothing to add up, too
      const int64_t depth = std::min(kPieceDepth, k - p);
      for (int64_t j = 0; j < m; j += Tile::kColumns) {
        const float* const panel = panels + j * k + p * Tile::kColumns;
        for (int64_t i = 0; i < rows; i += Tile::kRows) {
          const StridedMatrix<float> w = {call.b.data + (row + i) * call.b.col + p, call.b.col, 1};
          MultiplyTile(isa, std::min<int64_t>(Tile::kRows, rows - i), depth, w, panel, Tile::kColumns,
                       sums + i * padded + j, padded, /*accumulate=*/p > 0);
        }
      }
      p += kPieceDepth;
    } while (p < k);
    Finish<kIsa>(m, rows, sums, padded, activation, call.bias == nullptr ? nullptr : call.bias + row, finished,
                 call.c + row, call.n);
  }
}

}  // namespace
}  // namespace short_gemm

template <class A, class C>
void ShortGemm(int threads, const GemmCall<A, float, C>& call, Activation activation, void* workspace) {
  constexpr int64_t kUnit = 24;  // rows: what every register tile divides
  const int64_t units = Parts(call.n, kUnit);
  const int64_t parts = std::min<int64_t>(threads, units);
  ParallelFor(threads, parts, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t part = begin; part < end; ++part) {
        short_gemm::MultiplyPart(isa, call, activation, units * part / parts * kUnit,
                                 std::min(call.n, units * (part + 1) / parts * kUnit),
                                 static_cast<float*>(workspace) + part * short_gemm::Floats(call.m, call.k));
      }
    });
  });
}

int64_t ShortGemmWorkspaceBytes(int threads, int64_t m, int64_t k) {
  return threads * short_gemm::Floats(m, k) * static_cast<int64_t>(sizeof(float));
}

template void ShortGemm(int, const GemmCall<BFloat16, float, BFloat16>&, Activation, void*);

}  // namespace snug::core
