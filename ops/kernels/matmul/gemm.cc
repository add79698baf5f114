#include "ops/kernels/matmul/gemm.h"

#include <algorithm>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"

namespace snug::core {
namespace {

// A tile of C and the panels it is made from. They take about 150 KB of stack, most of which passes through the
// second-level cache.
constexpr int64_t kTileRows = 64;
constexpr int64_t kTileColumns = 128;

template <class Acc>
struct TileBuffers {
  static constexpr int64_t kDepth = 1024 / static_cast<int64_t>(sizeof(Acc));

  // Strips [depth][rows of a register tile]; the last one may reach beyond kTileRows.
  alignas(64) Acc a[(kTileRows + 8) * kDepth];
  alignas(64) Acc b[kPanel<Acc> * kDepth];      // one panel
  alignas(64) Acc c[kTileRows * kTileColumns];  // row-major
};

// Packs a [rows, depth] into a strip [depth][kPackedRows], whose rows one register tile reads together.
template <int64_t kPackedRows, class Acc, class T>
SNUG_INLINE void PackStrip(int64_t rows, int64_t depth, StridedMatrix<T> a, Acc* strip) {
  if (a.row == 1 && rows == kPackedRows) {
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t i = 0; i < kPackedRows; ++i) strip[p * kPackedRows + i] = a.data[p * a.col + i];
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t p = 0; p < depth; ++p) strip[p * kPackedRows + i] = a.data[i * a.row + p * a.col];
  }
}

// Computes c [m, n], a part of a whole product whose rows are c_stride apart; m <= kTileRows and n <= kTileColumns.
template <Isa kIsa, class T>
SNUG_INLINE void MultiplyTile(IsaConstant<kIsa> isa, int64_t m, int64_t n, int64_t k, StridedMatrix<T> a,
                              StridedMatrix<T> b, const T* bias, T* c, int64_t c_stride) {
  using Acc = Accumulator<T>;
  using Buffers = TileBuffers<Acc>;
  constexpr int64_t kPackedRows = GemmTile<kIsa, Acc>::kRows;
  Buffers tile;
  if (k == 0) std::fill(std::begin(tile.c), std::end(tile.c), Acc(0));  // nothing is added up
  for (int64_t p = 0; p < k; p += Buffers::kDepth) {
    const int64_t depth = std::min(Buffers::kDepth, k - p);
    for (int64_t i = 0; i < m; i += kPackedRows) {
      PackStrip<kPackedRows>(std::min(kPackedRows, m - i), depth, a.At(i, p), tile.a + i * Buffers::kDepth);
    }
    for (int64_t j = 0; j < n; j += kPanel<Acc>) {
      PackPanel(depth, std::min(kPanel<Acc>, n - j), b.At(p, j), tile.b);
      for (int64_t i = 0; i < m; i += kPackedRows) {
        const StridedMatrix<Acc> strip = {tile.a + i * Buffers::kDepth, 1, kPackedRows};
        MultiplyPanel(isa, std::min(kPackedRows, m - i), depth, strip, tile.b, tile.c + i * kTileColumns + j,
                      kTileColumns, /*accumulate=*/p > 0);
      }
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    const Acc* sums = tile.c + i * kTileColumns;
    T* row = c + i * c_stride;
    if (bias == nullptr) {
      for (int64_t j = 0; j < n; ++j) row[j] = sums[j];
    } else {
      for (int64_t j = 0; j < n; ++j) row[j] = sums[j] + Acc(bias[j]);
    }
  }
}

}  // namespace

template <class T>
void Gemm(int threads, const GemmCall<T>& call) {
  const int64_t row_tiles = (call.m + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (call.n + kTileColumns - 1) / kTileColumns;
  const int64_t tiles = row_tiles * column_tiles;
  ParallelFor(threads, call.batch.num_elements() * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t product = task / tiles;
      StridedMatrix<T> a = call.a, b = call.b;
      int64_t rest = product;
      for (int axis = call.batch.rank() - 1; axis >= 0; --axis) {
        const int64_t index = rest % call.batch[axis];
        rest /= call.batch[axis];
        a.data += index * call.a_batch[static_cast<size_t>(axis)];
        b.data += index * call.b_batch[static_cast<size_t>(axis)];
      }
      // Tasks go down the columns of tiles, so that a worker's neighbouring tiles share their part of B.
      const int64_t i = task % tiles % row_tiles * kTileRows;
      const int64_t j = task % tiles / row_tiles * kTileColumns;
      const int64_t m = std::min(kTileRows, call.m - i);
      const int64_t n = std::min(kTileColumns, call.n - j);
      T* c = call.c + product * call.m * call.n + i * call.n + j;
      const T* bias = call.bias == nullptr ? nullptr : call.bias + j;
      WithIsa([&](auto isa) SNUG_LAMBDA { MultiplyTile(isa, m, n, call.k, a.At(i, 0), b.At(0, j), bias, c, call.n); });
    }
  });
}

template void Gemm(int threads, const GemmCall<float>& call);
template void Gemm(int threads, const GemmCall<BFloat16>& call);
template void Gemm(int threads, const GemmCall<double>& call);

}  // namespace snug::core
