// The gradient of the filters by Winograd's filtering.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "engine/base/workers.h"
#include "ops/kernels/conv/winograd/data.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/weight_cut.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {
namespace {

// Transforms the gradient of one tile's result, for the kOutBlock output channels from `out` on, into panels:
// [sum][panel][tiles of the panel][columns of a panel]. What is not there counts as 0. The tile `next` is asked for on
// the way. `kWhole`: the tile is.
template <Isa kIsa, class Axis, bool kWhole, class T>
SNUG_INLINE void TransformTileGrad(const WinogradSizes& s, const TileAt& at, const TileAt& next, int64_t out,
                                   const T* dy, float* panels, int64_t tiles, int64_t sum_stride) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kColumns = GemmTile<kIsa, float>::kColumns, kSums = Axis::kSums;
  const int64_t height = kWhole ? Axis::kTile : at.height, width = kWhole ? Axis::kTile : at.width;
  const TilePixels pixels = ResultPixels<Axis>(s, at), coming = ResultPixels<Axis>(s, next);
  const int64_t channels = std::min(kOutBlock, s.out_channels - out);
  for (int64_t o = 0; o < kOutBlock; o += kLanesOf<kIsa>) {
    float* panel = panels + o / kColumns * kColumns * tiles + o % kColumns;
    for (int64_t i = 0; i < Axis::kTile && o < channels; ++i) {
      for (int64_t j = 0; j < Axis::kTile; ++j) __builtin_prefetch(dy + coming.At(i, j) + out + o, 0, 3);
    }
    Vector across[Axis::kTile * kSums] = {};
    for (int64_t i = 0; i < height && o < channels; ++i) {
      Vector line[Axis::kTile] = {};
#pragma GCC unroll 4
      for (int64_t j = 0; j < width; ++j) LoadFloats(dy + pixels.At(i, j) + out + o, line[j]);
      Axis::ResultGrad(width, line, across + i * kSums);
    }
#pragma GCC unroll 9
    for (int64_t j = 0; j < kSums; ++j) {
      Vector column[Axis::kTile], down[kSums];
#pragma GCC unroll 4
      for (int64_t i = 0; i < Axis::kTile; ++i) column[i] = across[i * kSums + j];
      Axis::ResultGrad(height, column, down);
#pragma GCC unroll 9
      for (int64_t i = 0; i < kSums; ++i) StoreFloats(down[i], panel + (i * kSums + j) * sum_stride);
    }
  }
}

// One call, for its workers.
template <class T>
struct GradWeightRun {
  const WinogradSizes& s;
  const GradWeightCut& cut;
  const T* x;
  const T* dy;
  T* dw;
  const ProductList& products;
};

// A block of the result.
struct FilterBlock {
  FilterBlock(const GradWeightCut& cut, int64_t in_block, int64_t out_block)
      : in(cut.ChannelsOf(in_block)), out(out_block * kOutBlock) {}
  Channels in;
  int64_t out;
};

// Transforms the gradients of the results of a group's tiles, for the output channels from `out` on.
template <Isa kIsa, class Axis, class T>
SNUG_INLINE void TransformGrads(const GradWeightRun<T>& run, const TileBlock& tiles, int64_t out, float* panels) {
  const int64_t count = tiles.count();
  for (int64_t t = 0; t < count; ++t) {
    const TileAt at(run.cut, tiles[t]), next(run.cut, tiles[std::min(t + 1, count - 1)]);
    WithWhole(at, [&](auto whole) SNUG_LAMBDA {
      TransformTileGrad<kIsa, Axis, whole()>(run.s, at, next, out, run.dy, panels + t * GemmTile<kIsa, float>::kColumns,
                                             count, run.cut.grad_point);
    });
  }
}

// Transforms the sums of a block back into gradients of filters, for the block's input channels [begin, end).
template <Isa kIsa, class Axis, class T>
SNUG_INLINE void WriteFilterGrads(const GradWeightRun<T>& run, const FilterBlock& block, int64_t begin, int64_t end,
                                  const float* sums) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>, kProducts = Axis::kProducts;
  constexpr int64_t kLine = Axis::kTaps, kTaps = kLine * kLine;
  const int64_t channels = std::min(kOutBlock, run.s.out_channels - block.out);
  const int64_t dw_row = run.s.in_channels * kTaps;  // of an output channel
  for (int64_t o = 0; o < channels; o += kLanes) {
    for (int64_t first = begin; first < end; first += kLanes) {
      const int64_t count = std::min(kLanes, end - first);
      alignas(Vector) float taps[kLanes * kTaps * kLanes];  // [input channel][tap][output channel]
      for (int64_t c = 0; c < count; ++c) {
        Vector across[kLine * kProducts];
#pragma GCC unroll 9
        for (int64_t j = 0; j < kProducts; ++j) {
          Vector column[kProducts], down[kLine];
#pragma GCC unroll 9
          for (int64_t i = 0; i < kProducts; ++i) {
            LoadFloats(sums + (i * kProducts + j) * run.cut.sums_point + (first + c) * kOutBlock + o, column[i]);
          }
          Axis::FilterGrad(column, down);
#pragma GCC unroll 9
          for (int64_t i = 0; i < kLine; ++i) across[i * kProducts + j] = down[i];
        }
#pragma GCC unroll 9
        for (int64_t i = 0; i < kLine; ++i) {
          Vector line[kLine];
          Axis::FilterGrad(across + i * kProducts, line);
#pragma GCC unroll 9
          for (int64_t j = 0; j < kLine; ++j) StoreFloats(line[j], taps + (c * kTaps + i * kLine + j) * kLanes);
        }
      }
      T* const filters = run.dw + (block.out + o) * dw_row + (block.in.first + first) * kTaps;
      const int64_t elements = count * kTaps;
      int64_t written = 0;
      if constexpr (std::is_same_v<T, float>) {
        for (; written + kLanes <= elements; written += kLanes) {
          TransposeSquare<kLanes, kLanes>(taps + written * kLanes, kLanes, filters + written, dw_row);
        }
      }
      for (int64_t l = 0; l < kLanes; ++l) {
        for (int64_t t = written; t < elements; ++t) filters[l * dw_row + t] = static_cast<T>(taps[t * kLanes + l]);
      }
    }
  }
}

// Does a unit. Sums are [product][input channel][kOutBlock] for each block.
template <Isa kIsa, class Axis, class T>
SNUG_INLINE void DoUnit(const GradWeightRun<T>& run, const GradWeightUnit& unit, const GradWeightMemory& memory) {
  const GradWeightCut& cut = run.cut;
  for (int64_t first = unit.tiles.begin; first < unit.tiles.end; first += cut.group) {
    const int64_t count = std::min(cut.group, unit.tiles.end - first);
    const TileBlock tiles(cut, first, count);
    for (int64_t out = unit.out.begin; out < unit.out.end; ++out) {
      TransformGrads<kIsa, Axis>(run, tiles, out * kOutBlock, memory.GradsOf(unit, out));
    }
    for (int64_t in = unit.in.begin; in < unit.in.end; ++in) {
      const Channels channels = cut.ChannelsOf(in);
      TransformTiles(run.s, cut, tiles, 0, count, channels, run.x, {memory.data, cut.data_stride, cut.data_point});
      for (int64_t out = unit.out.begin; out < unit.out.end; ++out) {
        float* const sums = memory.SumsOf(unit, in, out);
        MultiplyPoints({.list = run.products,
                        .tiles = tiles.of_products(),
                        .m = channels.count,
                        .k = count,
                        .a = {memory.data, 1, cut.data_stride},
                        .a_point = cut.data_point,
                        .panels = memory.GradsOf(unit, out),
                        .panel_rows = count,
                        .panels_point = cut.grad_point,
                        .c = sums,
                        .c_point = cut.sums_point,
                        .accumulate = first > unit.tiles.begin});
        const bool all = cut.parts == 1 && first + count == unit.tiles.end;
        if (all) WriteFilterGrads<kIsa, Axis>(run, FilterBlock(cut, in, out), 0, channels.count, sums);
      }
    }
  }
}

// Adds the sums of the input channels [begin, begin + count) to others.
SNUG_INLINE void AddSums(const GradWeightCut& cut, int64_t begin, int64_t count, const float* more, float* sums) {
  for (int64_t product = 0; product < cut.products; ++product) {
    const int64_t at = product * cut.sums_point + begin * kOutBlock;
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < count * kOutBlock; ++i) sums[at + i] += more[at + i];
  }
}

}  // namespace
}  // namespace winograd

int64_t WinogradGradWeightWorkspaceBytes(int threads, const WinogradSizes& s) {
  return winograd::GradWeightCut(threads, s).bytes();
}

template <class T>
void WinogradGradWeight(int threads, const WinogradSizes& s, const T* x, const T* dy, T* dw, void* workspace) {
  const winograd::GradWeightCut cut(threads, s);
  const winograd::ProductList products = winograd::ProductsOfGradWeight(s);
  const winograd::GradWeightRun<T> run = {s, cut, x, dy, dw, products};
  ForEachWorker(threads, cut.units(), [&](int64_t worker, int64_t first, int64_t last) {
    const winograd::GradWeightMemory memory(cut, worker, static_cast<float*>(workspace));
    WithIsa([&](auto isa) SNUG_LAMBDA {
      winograd::WithFilterAxis(s.kind, [&](auto axis) SNUG_LAMBDA {
        for (int64_t i = first; i < last; ++i) {
          winograd::DoUnit<isa(), decltype(axis)>(run, winograd::GradWeightUnit(cut, i), memory);
        }
      });
    });
  });
  if (cut.parts == 1) return;
  constexpr int64_t kChannels = kWinogradChannels;  // at a time
  const int64_t steps = Parts(cut.in_block, kChannels);
  float* const all_sums = winograd::GradWeightMemory(cut, 0, static_cast<float*>(workspace)).sums;
  ParallelFor(threads, cut.blocks * steps, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      winograd::WithFilterAxis(s.kind, [&](auto axis) SNUG_LAMBDA {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t number = i / steps;
          const winograd::FilterBlock block(cut, number % cut.in_blocks, number / cut.in_blocks);
          const int64_t c = i % steps * kChannels, count = std::min(kChannels, block.in.count - c);
          if (count <= 0) continue;
          float* const sums = all_sums + number * cut.parts * cut.sums_floats();
          for (int64_t part = 1; part < cut.parts; ++part) {
            winograd::AddSums(cut, c, count, sums + part * cut.sums_floats(), sums);
          }
          winograd::WriteFilterGrads<isa(), decltype(axis)>(run, block, c, c + count, sums);
        }
      });
    });
  });
}

template void WinogradGradWeight(int, const WinogradSizes&, const float*, const float*, float*, void*);
template void WinogradGradWeight(int, const WinogradSizes&, const BFloat16*, const BFloat16*, BFloat16*, void*);

}  // namespace snug::core
