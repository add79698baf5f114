// How a matrix product is spread over a CUDA device, by its size alone: known to the kernel (cuda_gemm.h) and to those
// who plan its workspace.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"

namespace snug {

// c [m, n] = a [m, k] b [k, n], so many times.
struct CudaGemmSize {
  static constexpr int kTile = 64;
  static constexpr int64_t kNarrow = 16;

  int64_t m, n, k, count;

  // Tiles would be mostly empty: each result is computed by itself (the products of a depthwise convolution).
  bool narrow() const { return m < kNarrow || n < kNarrow; }
  bool short_sums() const { return k <= 256; }
  int64_t tiles_m() const { return (m + kTile - 1) / kTile; }
  int64_t tiles_n() const { return (n + kTile - 1) / kTile; }
  // Long sums of small results are cut into parts, which are added in order.
  int64_t parts() const {
    if (narrow()) return 1;
    const int64_t blocks = std::max<int64_t>(tiles_m() * tiles_n() * count, 1);
    return std::clamp<int64_t>(std::min(k / 256, 512 / blocks), 1, 64);
  }
  int64_t WorkspaceBytes(DType dtype) const {
    return parts() == 1 ? 0 : parts() * count * m * n * (dtype == DType::kFloat64 ? 8 : 4);
  }
};

}  // namespace snug
