// Says which products of float32 matrices our own loops compute on the CPU, by sizes alone. Each element of theirs is
// one chain of multiply-adds in the order of k (ops/kernels/matmul/blocked.h), so the bits are the same whether a
// product is made at once or in blocks of rows. Smaller ones are left to a library, where there is one.
#pragma once

#include <cstdint>

namespace snug::core {

inline constexpr double kOwnProductPaysFrom = 1 << 25;  // multiply-adds

// Says whether a product [m, n] over k has the bits that it has in blocks of rows.
inline bool HasTheBitsOfBlocks(int64_t m, int64_t n, int64_t k) {
  if (k <= 1) return true;  // one product each
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= kOwnProductPaysFrom;
}

}  // namespace snug::core
