// Says how a matrix product is spread over a CUDA device, by its size alone: the kernel (cuda_gemm.h) and those who
// plan its workspace have to agree on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"

namespace snug {

// c [m, n] = a [m, k] b [k, n], `count` times.
struct CudaGemmSize {
  static constexpr int kTile = 64;
  static constexpr int64_t kNarrow = 16;

  int64_t m, n, k, count;

  // Says whether tiles would be mostly empty, as in a depthwise convolution: then each result is computed by itself.
  bool narrow() const { return m < kNarrow || n < kNarrow; }
  bool short_sums() const { return k <= 256; }
  int64_t tiles_m() const { return (m + kTile - 1) / kTile; }
  int64_t tiles_n() const { return (n + kTile - 1) / kTile; }
  // Returns into how many parts, which are added in order, the long sums of small results are cut.
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
