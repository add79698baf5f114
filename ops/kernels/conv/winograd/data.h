// The transform of data (winograd.h).
#pragma once

#include <cstdint>

#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/winograd.h"

namespace snug::core::winograd {

// Where the transformed data of a block's tiles go: those of the i-th to data[point * point_stride + i * tile_stride +
// channel]. What lies between the last channel and the next tile is of no use.
struct TransformedTiles {
  float* data;
  int64_t tile_stride, point_stride;
};

// Transforms some channels of the data of the tiles [begin, end) of a block.
template <class T>
void TransformTiles(const WinogradSizes& s, const Tiling& tiling, const TileBlock& block, int64_t begin, int64_t end,
                    const Channels& channels, const T* x, const TransformedTiles& to);

}  // namespace snug::core::winograd
