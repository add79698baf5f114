// The transform of sums into results (winograd.h).
#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/winograd.h"

namespace snug::core::winograd {

// Writes the results of a block of tiles for a block of output channels from `out` on. The i-th tile's sums are
// sums[sum * sum_stride + i * tiling.out_block + channel].
template <class T>
void WriteTiles(const WinogradSizes& s, const Tiling& tiling, const TileBlock& tiles, int64_t out, const float* sums,
                int64_t sum_stride, const T* bias, Activation activation, T* y);

}  // namespace snug::core::winograd
