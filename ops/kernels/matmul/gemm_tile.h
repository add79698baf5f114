// The register-tiled core of all our own matrix products on the processor: C [m, n] (+)= A [m, k] B [k, n] on data that
// lies in cache.
//
// B is packed into panels [k][kPanel]: a row is two 64-byte vectors, and short panels are padded with zeros. A is read
// element by element through strides, so it may be transposed. C is written in whole panels, so its rows are padded
// like B's. Each element of C is one chain of multiply-adds in the order of k, so the result never depends on tiles or
// threads.
//
// These are inline bodies for WithIsa (ops/kit/isa.h); GCC's vector extension lets one source serve every level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/kit/isa.h"

namespace snug::core {

// The number of columns in a panel of Acc (float or double).
template <class Acc>
inline constexpr int64_t kPanel = 128 / static_cast<int64_t>(sizeof(Acc));

// Returns how many rows of C are held in registers together: as many as fit beside two vectors of B.
inline int64_t GemmTileRows() {
  switch (CurrentIsa()) {
    case Isa::kAvx512:
      return 8;
    case Isa::kAvx2:
      return 2;
    case Isa::kBaseline:
      break;
  }
  return 1;
}

// A matrix anywhere in memory, whose element (i, j) is data[i * row + j * col].
template <class T>
struct StridedMatrix {
  const T* data = nullptr;
  int64_t row = 0, col = 0;

  SNUG_INLINE StridedMatrix At(int64_t i, int64_t j) const { return {data + i * row + j * col, row, col}; }
};

namespace internal {

template <class Acc>
struct WideVector {
  typedef Acc type __attribute__((vector_size(64)));  // NOLINT: `using` takes no dependent vector_size in GCC 12
};

template <int kRows, class Acc, class T>
SNUG_INLINE void MultiplyRows(int64_t k, StridedMatrix<T> a, const Acc* panel, Acc* c, int64_t c_stride,
                              bool accumulate) {
  using Vector = typename WideVector<Acc>::type;
  constexpr int64_t kLanes = kPanel<Acc> / 2;
  Vector sum[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = sum[r][1] = Vector{};
    if (!accumulate) continue;
    std::memcpy(&sum[r][0], c + r * c_stride, sizeof(Vector));
    std::memcpy(&sum[r][1], c + r * c_stride + kLanes, sizeof(Vector));
  }
  for (int64_t p = 0; p < k; ++p) {
    Vector b0, b1;
    std::memcpy(&b0, panel + p * kPanel<Acc>, sizeof(Vector));
    std::memcpy(&b1, panel + p * kPanel<Acc> + kLanes, sizeof(Vector));
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
    std::memcpy(c + r * c_stride + kLanes, &sum[r][1], sizeof(Vector));
  }
}

}  // namespace internal

// Computes one panel's columns of C (+)= A B. `tile_rows` is GemmTileRows().
template <class Acc, class T>
SNUG_INLINE void MultiplyPanel(int64_t tile_rows, int64_t m, int64_t k, StridedMatrix<T> a, const Acc* panel, Acc* c,
                               int64_t c_stride, bool accumulate) {
  int64_t i = 0;
  const auto take = [&](auto rows) SNUG_LAMBDA {
    constexpr int kRows = decltype(rows)::value;
    for (; kRows <= tile_rows && i + kRows <= m; i += kRows) {
      internal::MultiplyRows<kRows>(k, a.At(i, 0), panel, c + i * c_stride, c_stride, accumulate);
    }
  };
  take(std::integral_constant<int, 8>());
  take(std::integral_constant<int, 4>());
  take(std::integral_constant<int, 2>());
  take(std::integral_constant<int, 1>());
}

// Computes all n columns of C from the panels of a packed B, which have `panel_rows` >= k rows each. C's rows hold
// whole panels.
template <class Acc, class T>
SNUG_INLINE void MultiplyPanels(int64_t tile_rows, int64_t m, int64_t n, int64_t k, StridedMatrix<T> a,
                                const Acc* panels, int64_t panel_rows, Acc* c, int64_t c_stride, bool accumulate) {
  for (int64_t j = 0; j < n; j += kPanel<Acc>) {
    MultiplyPanel(tile_rows, m, k, a, panels + j * panel_rows, c + j, c_stride, accumulate);
  }
}

// Packs b [k, n], with n <= kPanel, into one panel.
template <class Acc, class T>
SNUG_INLINE void PackPanel(int64_t k, int64_t n, StridedMatrix<T> b, Acc* panel) {
  if (n < kPanel<Acc>) std::fill(panel, panel + k * kPanel<Acc>, Acc(0));
  if (b.col == 1 && n == kPanel<Acc>) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < kPanel<Acc>; ++j) panel[p * kPanel<Acc> + j] = b.data[p * b.row + j];
    }
    return;
  }
  // Sixteen rows of the panel are filled at a time: their cache lines stay while all columns, each contiguous in a
  // transposed b, are copied into them.
  for (int64_t begin = 0; begin < k; begin += 16) {
    const int64_t end = std::min(k, begin + 16);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = begin; p < end; ++p) panel[p * kPanel<Acc> + j] = b.data[p * b.row + j * b.col];
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
