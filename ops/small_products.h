// Which products of matrices on CUDA are small, so that a kernel of our own (kernels/matmul/cuda_small.h) takes less
// time than the library's. Its rule is here because a pass goes by it, too; docs/cuda.md has it in words.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace snug::core {

// Returns how many tiles with so long sides an [m, n] takes.
inline int64_t TilesOf(int64_t m, int64_t n, int64_t side) { return ((m + side - 1) / side) * ((n + side - 1) / side); }

// Of [m, k] by [k, n]. It counts the library's tiles, which leave processors idle where they are few, and
// multiply-adds: of more of them, the library's are faster than ours by more than that costs.
inline bool SmallProductPays(int64_t m, int64_t n, int64_t k, DType dtype, bool tf32) {
  constexpr int64_t kTile = 64;         // of the library, for results as few as these
  constexpr int64_t kMostTiles = 64;    // half of what keeps the processors of a large device busy
  constexpr int64_t kMostTerms = 4096;  // one block goes through them; of longer sums the library makes several
  const bool tensor_cores = dtype != DType::kFloat32 || tf32;
  const double most = tensor_cores ? 1 << 24 : 1 << 26;
  return TilesOf(m, n, kTile) <= kMostTiles && k <= kMostTerms &&
         static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= most;
}

}  // namespace snug::core
