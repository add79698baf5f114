#include "ops/kernels/conv/winograd/data.h"

#include <algorithm>

#include "engine/base/dtype.h"
#include "ops/kernels/conv/winograd/axes.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::winograd {
namespace {

// Transforms the data of one tile, some of its channels: data[point * point_stride + channel]. Of the tile `next` those
// columns are asked for on the way that a tile to the left of it does not have. They may lie outside x, which does no
// harm. `kWhole`: the tile is.
template <Isa kIsa, class Axis, bool kWhole, class T>
SNUG_INLINE void TransformTile(const WinogradSizes& s, const TileAt& at, const TileAt& next, const Channels& channels,
                               const T* x, float* data, int64_t point_stride) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kData = Axis::kData, kPoints = Axis::kPoints;
  const int64_t height = kWhole ? Axis::kTile : at.height, width = kWhole ? Axis::kTile : at.width;
  const int64_t lines = kWhole ? kData : Axis::DataCount(height);
  const TilePixels pixels = DataPixels<Axis>(s, at), coming = DataPixels<Axis>(s, next);
  const bool inside =
      pixels.HasRow(0) && pixels.HasRow(kData - 1) && pixels.HasColumn(0) && pixels.HasColumn(kData - 1);
  for (int64_t c = 0; c < channels.count; c += kLanesOf<kIsa>) {
    Vector across[kData * kPoints];
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t j = kData - Axis::kNewData; j < kData; ++j) {
        __builtin_prefetch(x + coming.At(i, j) + channels.first + c, 0, 3);
      }
      Vector line[kData];
#pragma GCC unroll 9
      for (int64_t j = 0; j < kData; ++j) {
        line[j] = Vector{};
        if (inside || (pixels.HasRow(i) && pixels.HasColumn(j))) {
          LoadFloats(x + pixels.At(i, j) + channels.first + c, line[j]);
        }
      }
      Axis::Data(width, line, across + i * kPoints);
    }
#pragma GCC unroll 9
    for (int64_t j = 0; j < kPoints; ++j) {
      if (!kWhole && !HasPoint(width, Axis::NumberOfPoint(j))) continue;
      Vector column[kData] = {}, down[kPoints] = {};  // edges leave out some
      for (int64_t i = 0; i < lines; ++i) column[i] = across[i * kPoints + j];
      Axis::Data(height, column, down);
#pragma GCC unroll 9
      for (int64_t i = 0; i < kPoints; ++i) {
        if (!kWhole && !HasPoint(height, Axis::NumberOfPoint(i))) continue;
        StoreFloats(down[i], data + (i * kPoints + j) * point_stride + c);
      }
    }
  }
}

}  // namespace

template <class T>
void TransformTiles(const WinogradSizes& s, const Tiling& tiling, const TileBlock& block, int64_t begin, int64_t end,
                    const Channels& channels, const T* x, const TransformedTiles& to) {
  WithIsa([&](auto isa) SNUG_LAMBDA {
    WithAxis(s.kind, [&](auto axis) SNUG_LAMBDA {
      using Axis = decltype(axis);
      for (int64_t t = begin; t < end; ++t) {
        const TileAt at(tiling, block[t]), next(tiling, block[std::min(t + 1, end - 1)]);
        float* const data = to.data + t * to.tile_stride;
        WithWhole(at, [&](auto whole) SNUG_LAMBDA {
          TransformTile<isa(), Axis, whole()>(s, at, next, channels, x, data, to.point_stride);
        });
      }
    });
  });
}

template void TransformTiles(const WinogradSizes&, const Tiling&, const TileBlock&, int64_t, int64_t, const Channels&,
                             const float*, const TransformedTiles&);
template void TransformTiles(const WinogradSizes&, const Tiling&, const TileBlock&, int64_t, int64_t, const Channels&,
                             const BFloat16*, const TransformedTiles&);

}  // namespace snug::core::winograd
