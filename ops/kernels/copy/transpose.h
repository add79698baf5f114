// Transposes small squares of elements in registers, for loops that turn rows into columns: element by element the
// compiler finds no vector in them. These are inline bodies for WithIsa (ops/kit/isa.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {

// The side of the square of T whose rows are vectors of the instruction set.
template <Isa kIsa, class T>
inline constexpr int64_t kSquare = (kIsa == Isa::kAvx512 ? 64
                                    : kIsa == Isa::kAvx2 ? 32
                                                         : 16) /
                                   static_cast<int64_t>(sizeof(T));

namespace internal {

// Swaps, in all squares of 2 kStep rows and columns, the upper right quarter with the lower left one.
template <int64_t kStep, int64_t kSize, class Vector>
SNUG_INLINE void SwapQuarters(Vector* rows) {
  // The vectors are passed by reference, because by value they have another ABI where the compiler's least processor
  // has no such registers.
  const auto swap = []<size_t... i>(std::index_sequence<i...>, Vector & upper, Vector & lower) SNUG_LAMBDA {
    const Vector a = upper;
    const Vector b = lower;
    upper = __builtin_shufflevector(a, b, ((i & kStep) != 0 ? kSize + i - kStep : i)...);
    lower = __builtin_shufflevector(a, b, ((i & kStep) != 0 ? kSize + i : i + kStep)...);
  };
  constexpr std::make_index_sequence<kSize> kIndices;
  for (int64_t i = 0; i < kSize; ++i) {
    if ((i & kStep) == 0) swap(kIndices, rows[i], rows[i + kStep]);
  }
}

template <int64_t kStep, int64_t kSize, class Vector>
SNUG_INLINE void SwapQuartersFrom(Vector* rows) {
  SwapQuarters<kStep, kSize>(rows);
  if constexpr (2 * kStep < kSize) SwapQuartersFrom<2 * kStep, kSize>(rows);
}

}  // namespace internal

// Sets to[j * to_row + i] = from[i * from_row + j] for i < kRows and j < kSize, kRows <= kSize. `from` has elements of
// T, or BFloat16 if T is float.
template <int64_t kSize, int64_t kRows, class From, class T>
SNUG_INLINE void TransposeSquare(const From* from, int64_t from_row, T* to, int64_t to_row) {
  typedef T Vector __attribute__((vector_size(kSize * sizeof(T))));  // NOLINT: `using` takes no dependent vector_size
  Vector rows[kSize] = {};
#pragma GCC unroll 64
  for (int64_t i = 0; i < kRows; ++i) {
    if constexpr (std::is_same_v<From, T>) {
      std::memcpy(&rows[i], from + i * from_row, sizeof(Vector));
    } else {
      static_assert(std::is_same_v<T, float>);
      LoadFloatsOfAnyWidth(from + i * from_row, rows[i]);
    }
  }
  internal::SwapQuartersFrom<1, kSize>(rows);
#pragma GCC unroll 64
  for (int64_t j = 0; j < kSize; ++j) std::memcpy(to + j * to_row, &rows[j], kRows * sizeof(T));
}

// The same for i < kRows and j < n, for any n.
template <int64_t kSize, int64_t kRows, class From, class T>
SNUG_INLINE void TransposeRows(int64_t n, const From* from, int64_t from_row, T* to, int64_t to_row) {
  int64_t j = 0;
  for (; j + kSize <= n; j += kSize) TransposeSquare<kSize, kRows>(from + j, from_row, to + j * to_row, to_row);
  for (; j < n; ++j) {
    for (int64_t i = 0; i < kRows; ++i) to[j * to_row + i] = static_cast<T>(from[i * from_row + j]);
  }
}

}  // namespace snug::core
