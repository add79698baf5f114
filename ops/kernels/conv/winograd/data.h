// The transform of data (winograd.h).
#pragma once

#include <cstdint>

#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/winograd.h"

namespace snug::core::winograd {

// Transforms some channels of the data of the tiles [begin, end) of a block: the i-th tile's are
// data[point * point_stride + i * channels.stride() + channel]. What lies between channels.count and channels.stride()
// is of no use.
template <class T>
void TransformTiles(const WinogradSizes& s, const Tiling& tiling, const TileBlock& block, int64_t begin, int64_t end,
                    const Channels& channels, const T* x, float* data, int64_t point_stride);

}  // namespace snug::core::winograd
