// The gradient of the filters by Winograd's filtering.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/conv/winograd.h"
#include "ops/kernels/conv/winograd_tiles.h"

namespace snug::core {
namespace winograd {
namespace {

// Transforms the gradient of one tile's result, for the kOutBlock output channels from `out` on, into panels:
// [point][panel][tiles of the panel][columns of a panel]. What is not there counts as 0.
template <Isa kIsa, class T>
SNUG_INLINE void TransformTileGrad(const WinogradSizes& s, const TileAt& at, int64_t out, const T* dy, float* panels,
                                   int64_t tiles, int64_t point_stride) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kColumns = GemmTile<kIsa, float>::kColumns;
  const int64_t height = std::min(kOut, s.out_height - at.row);
  const int64_t width = std::min(kOut, s.out_width - at.column);
  const T* corner = dy + ((at.image * s.out_height + at.row) * s.out_width + at.column) * s.out_channels + out;
  const int64_t channels = std::min(kOutBlock, s.out_channels - out);
  for (int64_t o = 0; o < kOutBlock; o += kLanesOf<kIsa>) {
    float* panel = panels + o / kColumns * kColumns * tiles + o % kColumns;
    Vector across[kOut * kIn] = {};
    for (int64_t i = 0; i < height && o < channels; ++i) {
      Vector line[kOut] = {};
      for (int64_t j = 0; j < width; ++j) LoadFloats(corner + (i * s.out_width + j) * s.out_channels + o, line[j]);
      TransformResultGrad(line, 1, across + i * kIn, 1);
    }
    for (int64_t j = 0; j < kIn; ++j) {
      Vector down[kIn];
      TransformResultGrad(across + j, kIn, down, 1);
      for (int64_t i = 0; i < kIn; ++i) StoreFloats(down[i], panel + (i * kIn + j) * point_stride);
    }
  }
}

// Transforms the sums of kOutBlock output channels from `out` on back into gradients of filters, for the input channels
// [begin, end): sums[point][in_channels][kOutBlock].
template <Isa kIsa, class T>
SNUG_INLINE void WriteFilterGrads(const WinogradSizes& s, int64_t out, int64_t begin, int64_t end, const float* sums,
                                  int64_t point_stride, T* dw) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  const int64_t channels = std::min(kOutBlock, s.out_channels - out);
  for (int64_t o = 0; o < channels; o += kLanes) {
    for (int64_t c = begin; c < end; ++c) {
      Vector across[3 * kIn];
      for (int64_t j = 0; j < kIn; ++j) {
        Vector column[kIn];
        for (int64_t i = 0; i < kIn; ++i) {
          LoadFloats(sums + (i * kIn + j) * point_stride + c * kOutBlock + o, column[i]);
        }
        TransformFilterGrad(column, 1, across + j, kIn);
      }
      Vector lines[kTaps];
      for (int64_t i = 0; i < 3; ++i) TransformFilterGrad(across + i * kIn, 1, lines + i * 3, 1);
      alignas(Vector) float taps[kTaps][kLanes];
      std::memcpy(taps, lines, sizeof(taps));
      for (int64_t l = 0; l < kLanes; ++l) {
        T* filter = dw + ((out + o + l) * s.in_channels + c) * kTaps;
        for (int64_t t = 0; t < kTaps; ++t) filter[t] = static_cast<T>(taps[t][l]);
      }
    }
  }
}

// Goes over the output channels in groups of blocks, whose sums are held while all tiles go by.
struct GradWeightCut : Tiling {
  explicit GradWeightCut(const WinogradSizes& s)
      : Tiling(s),
        held_tiles(HeldTiles(tiles, std::max(s.in_channels, kOutBlock))),
        group(std::clamp<int64_t>(kFilterFloats / filter_floats(), 1, out_blocks)),
        data_point(held_tiles * s.in_channels + kSkew),
        grad_point(held_tiles * kOutBlock + kSkew) {}

  int64_t data_floats() const { return kPoints * data_point; }
  int64_t grad_floats() const { return kPoints * grad_point; }
  int64_t bytes() const { return (data_floats() + group * (grad_floats() + filter_floats())) * kFloat; }

  int64_t held_tiles;
  int64_t group;  // blocks of output channels
  int64_t data_point;
  int64_t grad_point;  // of one block's transformed gradient
};

// Adds up the products of `count` tiles from `first` on for the blocks from `first_block` on.
template <class T>
void AddTiles(int threads, const WinogradSizes& s, const GradWeightCut& cut, int64_t first_block, int64_t blocks,
              int64_t first, int64_t count, const T* dy, const float* data, float* grads, float* sums) {
  ParallelFor(threads, blocks * count, 4, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      constexpr int64_t kColumns = GemmTile<isa(), float>::kColumns;
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t block = unit / count;
        const int64_t tile = unit % count;
        TransformTileGrad<isa()>(s, TileAt(cut, first + tile), (first_block + block) * kOutBlock, dy,
                                 grads + block * cut.grad_floats() + tile * kColumns, count, cut.grad_point);
      }
    });
  });
  ParallelFor(threads, blocks * kPoints, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t block = unit / kPoints;
        const int64_t point = unit % kPoints;
        MultiplyOutBlock(isa, s.in_channels, count, {data + point * cut.data_point, 1, s.in_channels},
                         grads + block * cut.grad_floats() + point * cut.grad_point, count,
                         sums + block * cut.filter_floats() + point * cut.filter_point, /*accumulate=*/first > 0);
      }
    });
  });
}

// Writes the gradients of `blocks` blocks of output channels from `first_block` on.
template <class T>
void WriteBlocks(int threads, const WinogradSizes& s, const GradWeightCut& cut, int64_t first_block, int64_t blocks,
                 const float* sums, T* dw) {
  constexpr int64_t kChannels = 8;
  const int64_t parts = Parts(s.in_channels, kChannels);
  ParallelFor(threads, blocks * parts, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t block = unit / parts;
        const int64_t c = unit % parts * kChannels;
        WriteFilterGrads<isa()>(s, (first_block + block) * kOutBlock, c, std::min(s.in_channels, c + kChannels),
                                sums + block * cut.filter_floats(), cut.filter_point, dw);
      }
    });
  });
}

}  // namespace
}  // namespace winograd

int64_t WinogradGradWeightWorkspaceBytes(int /*threads*/, const WinogradSizes& s) {
  return winograd::GradWeightCut(s).bytes();
}

template <class T>
void WinogradGradWeight(int threads, const WinogradSizes& s, const T* x, const T* dy, T* dw, void* workspace) {
  const winograd::GradWeightCut cut(s);
  float* data = static_cast<float*>(workspace);
  float* grads = data + cut.data_floats();
  float* sums = grads + cut.group * cut.grad_floats();
  for (int64_t first_block = 0; first_block < cut.out_blocks; first_block += cut.group) {
    const int64_t blocks = std::min(cut.group, cut.out_blocks - first_block);
    for (int64_t first = 0; first < cut.tiles; first += cut.held_tiles) {
      const int64_t count = std::min(cut.held_tiles, cut.tiles - first);
      const bool there = first_block > 0 && cut.held_tiles == cut.tiles;
      if (!there) winograd::TransformTiles(threads, s, cut, first, count, x, data, cut.data_point);
      winograd::AddTiles(threads, s, cut, first_block, blocks, first, count, dy, data, grads, sums);
    }
    winograd::WriteBlocks(threads, s, cut, first_block, blocks, sums, dw);
  }
}

template void WinogradGradWeight(int, const WinogradSizes&, const float*, const float*, float*, void*);
template void WinogradGradWeight(int, const WinogradSizes&, const BFloat16*, const BFloat16*, BFloat16*, void*);

}  // namespace snug::core
