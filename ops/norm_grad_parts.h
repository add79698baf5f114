// Says how the CUDA kernel of the gradient of a norm of rows (ops/nn/row_norm.cu) deals out rows that a warp holds, by
// sizes alone: predictions (engine/run/observe/kernel_work.cc) have the same rule.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"
#include "ops/few_rows.h"
#include "ops/kit/cuda/threads.h"

namespace snug::core {

// Says whether a warp holds a row, up to four packs in each thread. Then x and dy are read once.
inline bool WarpHoldsRow(int64_t width, DType dtype) { return width <= 32 * NumbersInPack(width, dtype) * kPacksHeld; }

// Each part is a block's, whose warps take rows in turn. Parts are as many as an H100 has room for blocks, two on each
// of its processors; few rows make fewer of them, and of many rows each thread adds up 64 at most.
struct NormGradParts {
  static constexpr int kWarps = kCudaThreads / 32;
  static constexpr int64_t kParts = 264;
  static constexpr int64_t kLeastRows = 2 * kWarps;
  static constexpr int64_t kMostRows = 64 * kWarps;

  explicit NormGradParts(int64_t all_rows) : rows(all_rows) {
    const int64_t wanted = std::clamp((rows + kParts - 1) / kParts, kLeastRows, kMostRows);
    rows_in_part = (wanted + kWarps - 1) / kWarps * kWarps;
    parts = (rows + rows_in_part - 1) / rows_in_part;
  }
  // Two sums for each column of each part.
  int64_t WorkspaceBytes(int64_t width) const { return parts * 2 * width * static_cast<int64_t>(sizeof(double)); }

  int64_t rows, rows_in_part, parts;
};

}  // namespace snug::core
