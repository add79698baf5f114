// The register-tiled core of all our own matrix products on the processor: C [m, n] (+)= A [m, k] B [k, n] on data that
// lies in cache.
//
// B is packed into panels [k][kPanel]: a row is two cache lines, and short panels are padded with zeros. A is read
// element by element through strides, so it may be transposed. C is written in whole panels, so its rows are padded
// like B's. How much of C is held in registers at once depends on the instruction set (GemmTile). Each element of C is
// one chain of multiply-adds in the order of k, so the result never depends on tiles or threads.
//
// These are inline bodies for WithIsa (ops/kit/isa.h); GCC's vector extension lets one source serve every level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/kit/isa.h"

namespace snug::core {

// The number of columns in a panel of Acc (float or double).
template <class Acc>
inline constexpr int64_t kPanel = 128 / static_cast<int64_t>(sizeof(Acc));

// The part of C that is held in registers: kRows rows of two vectors. Beside these sums there must be room for two
// vectors of B and one element of A that is spread over a vector: with 16 registers 6 rows fit, and no more than 4
// where a product needs a register on its way to the sum. With 32 registers 8 rows are enough to hide how long a
// multiply-add takes, and leave few rows over.
template <Isa kIsa, class Acc>
struct GemmTile {
  static constexpr int64_t kVectorBytes = kIsa == Isa::kAvx512 ? 64 : kIsa == Isa::kAvx2 ? 32 : 16;
  static constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(Acc));
  static constexpr int64_t kColumns = 2 * kLanes;
  static constexpr int kRows = kIsa == Isa::kAvx512 ? 8 : kIsa == Isa::kAvx2 ? 6 : 4;

  typedef Acc Vector __attribute__((vector_size(kVectorBytes)));  // NOLINT: `using` takes no dependent vector_size
};

// A matrix anywhere in memory, whose element (i, j) is data[i * row + j * col].
template <class T>
struct StridedMatrix {
  const T* data = nullptr;
  int64_t row = 0, col = 0;

  SNUG_INLINE StridedMatrix At(int64_t i, int64_t j) const { return {data + i * row + j * col, row, col}; }
};

namespace internal {

// Computes kRows rows of a tile's columns. `b` has these columns, rows b_stride apart.
template <int kRows, Isa kIsa, class Acc, class T>
SNUG_INLINE void MultiplyRows(int64_t k, StridedMatrix<T> a, const Acc* b, int64_t b_stride, Acc* c, int64_t c_stride,
                              bool accumulate) {
  using Tile = GemmTile<kIsa, Acc>;
  using Vector = typename Tile::Vector;
  Vector sum[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = sum[r][1] = Vector{};
    if (!accumulate) continue;
    std::memcpy(&sum[r][0], c + r * c_stride, sizeof(Vector));
    std::memcpy(&sum[r][1], c + r * c_stride + Tile::kLanes, sizeof(Vector));
  }
  for (int64_t p = 0; p < k; ++p) {
    Vector b0, b1;
    std::memcpy(&b0, b + p * b_stride, sizeof(Vector));
    std::memcpy(&b1, b + p * b_stride + Tile::kLanes, sizeof(Vector));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Acc value = a.data[r * a.row + p * a.col];
      sum[r][0] += value * b0;
      sum[r][1] += value * b1;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    std::memcpy(c + r * c_stride, &sum[r][0], sizeof(Vector));
    std::memcpy(c + r * c_stride + Tile::kLanes, &sum[r][1], sizeof(Vector));
  }
}

// Does the `rows` rows of a tile in parts of kRows and fewer.
template <int kRows, Isa kIsa, class Acc, class T>
SNUG_INLINE void MultiplyFewerRows(int64_t rows, int64_t k, StridedMatrix<T> a, const Acc* b, int64_t b_stride, Acc* c,
                                   int64_t c_stride, bool accumulate) {
  if (rows >= kRows) {
    MultiplyRows<kRows, kIsa>(k, a, b, b_stride, c, c_stride, accumulate);
    rows -= kRows;
    a = a.At(kRows, 0);
    c += kRows * c_stride;
  }
  if constexpr (kRows > 1) MultiplyFewerRows<kRows / 2, kIsa>(rows, k, a, b, b_stride, c, c_stride, accumulate);
}

}  // namespace internal

// Computes one tile of C (+)= A B: `rows` rows, at most GemmTile::kRows, of GemmTile::kColumns columns. `b` has these
// columns of B, rows b_stride apart. `isa` is what WithIsa told its body.
template <Isa kIsa, class Acc, class T>
SNUG_INLINE void MultiplyTile(IsaConstant<kIsa> /*isa*/, int64_t rows, int64_t k, StridedMatrix<T> a, const Acc* b,
                              int64_t b_stride, Acc* c, int64_t c_stride, bool accumulate) {
  constexpr int kRows = GemmTile<kIsa, Acc>::kRows;
  if (rows == kRows) {
    internal::MultiplyRows<kRows, kIsa>(k, a, b, b_stride, c, c_stride, accumulate);
  } else {
    internal::MultiplyFewerRows<4, kIsa>(rows, k, a, b, b_stride, c, c_stride, accumulate);
  }
}

// Computes one panel's columns of C (+)= A B.
template <Isa kIsa, class Acc, class T>
SNUG_INLINE void MultiplyPanel(IsaConstant<kIsa> isa, int64_t m, int64_t k, StridedMatrix<T> a, const Acc* panel,
                               Acc* c, int64_t c_stride, bool accumulate) {
  using Tile = GemmTile<kIsa, Acc>;
  for (int64_t j = 0; j < kPanel<Acc>; j += Tile::kColumns) {
    for (int64_t i = 0; i < m; i += Tile::kRows) {
      MultiplyTile(isa, std::min<int64_t>(Tile::kRows, m - i), k, a.At(i, 0), panel + j, kPanel<Acc>,
                   c + i * c_stride + j, c_stride, accumulate);
    }
  }
}

// Computes all n columns of C from the panels of a packed B, which have `panel_rows` >= k rows each. C's rows hold
// whole panels.
template <Isa kIsa, class Acc, class T>
SNUG_INLINE void MultiplyPanels(IsaConstant<kIsa> isa, int64_t m, int64_t n, int64_t k, StridedMatrix<T> a,
                                const Acc* panels, int64_t panel_rows, Acc* c, int64_t c_stride, bool accumulate) {
  for (int64_t j = 0; j < n; j += kPanel<Acc>) {
    MultiplyPanel(isa, m, k, a, panels + j * panel_rows, c + j, c_stride, accumulate);
  }
}

// Packs b [k, n], with n <= kWidth, into one panel [k][kWidth].
template <class Acc, int64_t kWidth = kPanel<Acc>, class T>
SNUG_INLINE void PackPanel(int64_t k, int64_t n, StridedMatrix<T> b, Acc* panel) {
  if (n < kWidth) std::fill(panel, panel + k * kWidth, Acc(0));
  if (b.col == 1 && n == kWidth) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < kWidth; ++j) panel[p * kWidth + j] = b.data[p * b.row + j];
    }
    return;
  }
  // Sixteen rows of the panel are filled at a time: their cache lines stay while all columns, each contiguous in a
  // transposed b, are copied into them.
  for (int64_t begin = 0; begin < k; begin += 16) {
    const int64_t end = std::min(k, begin + 16);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = begin; p < end; ++p) panel[p * kWidth + j] = b.data[p * b.row + j * b.col];
    }
  }
}

// Packs b [k, n] into ceil(n / kPanel) panels of k rows.
template <class Acc, class T>
SNUG_INLINE void PackPanels(int64_t k, int64_t n, StridedMatrix<T> b, Acc* panels) {
  for (int64_t j = 0; j < n; j += kPanel<Acc>) {
    PackPanel<Acc>(k, std::min(kPanel<Acc>, n - j), b.At(0, j), panels + j * k);
  }
}

// Returns n rounded up to whole panels: the columns (and row stride) of a C. A packed B has k times as many elements.
template <class Acc>
constexpr int64_t PaddedToPanels(int64_t n) {
  return (n + kPanel<Acc> - 1) / kPanel<Acc> * kPanel<Acc>;
}

}  // namespace snug::core
