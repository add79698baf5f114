// Says which products our own loops compute on the CPU. Each element of theirs is one chain of multiply-adds in the
// order of k (ops/kernels/matmul/blocked.h), so the bits are the same whether a product is made at once or in blocks of
// rows. Smaller ones are left to a library, where there is one.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace snug::core {

// Says whether they are for values of this type on this machine: for float32, and for bfloat16 where no library has
// products of it that the processor does faster.
bool OwnLoopsMultiply(DType dtype);

inline constexpr double kOwnProductPaysFrom = 1 << 25;  // multiply-adds

// Says whether a product [m, n] over k has the bits that it has in blocks of rows.
inline bool HasTheBitsOfBlocks(int64_t m, int64_t n, int64_t k) {
  if (k <= 1) return true;  // one product each
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= kOwnProductPaysFrom;
}

// How many rows of logits there are at once where a last layer and its loss are done in blocks of rows
// (ops/loss/dense_cross_entropy.cc). Each block adds to the whole gradient of the weights, which with so many rows
// takes a few percent of the time of the product that makes it.
inline constexpr int64_t kRowsInBlockOfLoss = 256;

}  // namespace snug::core
