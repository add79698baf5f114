#include "ops/kernels/conv/winograd/winograd.h"

#include <algorithm>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "engine/base/workers.h"
#include "ops/kernels/conv/winograd/data.h"
#include "ops/kernels/conv/winograd/filters.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/results.h"
#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace winograd {
namespace {

// Where the data of many tiles are held, they are at most so many floats (5 MB), but no fewer than kHeldTiles tiles,
// and some for each worker.
constexpr int64_t kHeldFloats = 5 << 18;
constexpr int64_t kHeldTiles = 96;
// Blocks of tiles are multiples of so many.
constexpr int64_t kTileStep = 8;
// Where tiles are few, filters are read few times, and what a worker has beside data that are held stays in its
// second-level cache: the filters of some input channels, a slab, and the sums of a group of tiles. Filters are
// transformed anew for each group, so it has no fewer than some, and that pays for a few groups.
constexpr int64_t kSlabFloats = 3 << 15;
constexpr int64_t kGroupFloats = 21 << 13;
constexpr int64_t kLeastGroup = 16, kMostGroups = 3;

// Either the transformed filters are few and all held, and each worker transforms blocks of its tiles, one after the
// other; or the transformed data of many tiles are held, and workers multiply groups of them with the filters of blocks
// of output channels, which they transform for themselves, unless they are given.
struct ConvCut : Tiling {
  ConvCut(int threads, const WinogradSizes& s, bool transformed)
      : Tiling(s),
        filters_given(transformed),
        filters_held(out_blocks * filter_floats() <= kFilterFloats),
        slabs(!filters_held && tiles <= kMostGroups * MostOfSlabs() && !(filters_given && sums == products)),
        slab(SlabOf(s)),
        data_tiles(filters_held ? TilesOfWorker(threads, s.in_channels) : HeldTiles(threads, s.in_channels)),
        group(filters_held ? data_tiles : GroupOf(threads, data_tiles)),
        tile_block(EqualPart(group, kMostTilesOfHeld, kTileStep)),
        slab_point(slab * out_block + kSkew),
        data_stride(StrideOfTiles(slab)),
        data_point(data_tiles * data_stride + kSkew),
        data_slab(points * data_point),
        data_floats(Parts(s.in_channels, slab) * data_slab),
        sums_point(group * out_block + kSkew) {}

  int64_t sums_floats() const { return sums * sums_point; }
  int64_t bytes(int threads) const {
    return ((filters_held ? threads : 1) * data_floats + panel_floats(threads) + threads * sums_floats()) * kFloat;
  }
  // For filters that are transformed here.
  int64_t panel_floats(int threads) const {
    if (filters_given) return 0;
    return filters_held ? out_blocks * filter_floats() : threads * own_filter_floats();
  }
  int64_t own_filter_floats() const { return products * slab_point; }

  bool filters_given;
  bool filters_held;
  bool slabs;
  int64_t slab;        // input channels; all of them, or a slab
  int64_t data_tiles;  // at most, where filters are held
  int64_t group;       // tiles whose sums a worker has
  int64_t tile_block;  // of a group, multiplied together
  int64_t slab_point;
  // What is transformed of the data lies slab by slab, so that what is read together lies together.
  int64_t data_stride;  // from one tile to the next one
  int64_t data_point, data_slab;
  int64_t data_floats;
  int64_t sums_point;

 private:
  int64_t TilesOfWorker(int threads, int64_t in_channels) const {
    const int64_t most =
        std::clamp(kBlockFloats / points / in_channels / kTileStep * kTileStep, kLeastTiles, kMostTiles);
    return std::min(most, Parts(Parts(tiles, threads), kTileStep) * kTileStep);
  }
  int64_t MostOfSlabs() const { return kGroupFloats / sums / out_block / kTileStep * kTileStep; }
  int64_t MostOfGroup() const { return slabs ? MostOfSlabs() : std::min(MostOfSlabs(), kMostTilesOfHeld); }
  int64_t HeldTiles(int threads, int64_t in_channels) const {
    const int64_t most =
        std::max({kHeldTiles, kHeldFloats / points / in_channels, Parts(threads, out_blocks) * MostOfGroup()});
    return EqualPart(tiles, most / kTileStep * kTileStep, kTileStep);
  }
  // As many groups as threads have time for in any case.
  int64_t GroupOf(int threads, int64_t held) const {
    const int64_t least = Parts(held, MostOfGroup());
    const int64_t rounds = Parts(out_blocks * least, threads);
    const int64_t groups = std::max(least, rounds * threads / out_blocks);
    return std::max(Parts(Parts(held, groups), kTileStep) * kTileStep, filters_given ? kTileStep : kLeastGroup);
  }
  // Where several products go into a sum, slabs are part of the sequence in which they do, and so are the same for
  // filters that are given.
  int64_t SlabOf(const WinogradSizes& s) const {
    if (!slabs) return s.in_channels;
    return std::min(s.in_channels, kSlabFloats / products / out_block / kWinogradChannels * kWinogradChannels);
  }
};

// Tiles are measured by so many, so parts do not depend on the blocks.
constexpr int64_t kMeasuredTiles = kTileStep;

// Where the pixels of some tiles are that are there.
template <class T>
struct Pixels {
  SNUG_INLINE Pixels(const WinogradSizes& s, const Tiling& tiling, int64_t first, int64_t tiles, const T* y) {
    for (int64_t t = first; t < first + tiles; ++t) {
      const TileAt at(tiling, t);
      const T* const image = y + at.image * s.out_height * s.out_width * s.out_channels;
      for (int64_t row = at.row; row < at.row + at.height; ++row) {
        for (int64_t column = at.column; column < at.column + at.width; ++column) {
          places[count++] = image + (row * s.out_width + column) * s.out_channels;
        }
      }
    }
  }
  const T* places[kMeasuredTiles * kOut * kOut];
  int64_t count = 0;
};

// One call, for its workers.
template <class T>
struct ConvRun {
  const WinogradSizes& s;
  const ConvCut& cut;
  const T* x;
  const WinogradFilters<T>& filters;
  const T* bias;
  Activation activation;
  T* y;
  const PartMoments& moments;
  const ProductList& products;
};

// A block of tiles, and where its sums are.
struct BlockOfTiles {
  const TileBlock& tiles;
  int64_t first;  // of the tiles, in the sequence of images
  float* sums;
};

// Transformed filters of a block of output channels.
struct FilterPanels {
  const float* data;
  int64_t rows;  // of a panel
  int64_t point_stride;
};

// Multiplies a block's data of some input channels with their filters, and adds that to its sums or, of the first input
// channels, sets them.
template <class T>
void MultiplyBlock(const ConvRun<T>& run, const BlockOfTiles& block, const Channels& channels, const float* data,
                   const FilterPanels& filters) {
  MultiplyPoints({.list = run.products,
                  .tiles = block.tiles.of_products(),
                  .tiles_are_rows = true,
                  .m = block.tiles.count(),
                  .n = run.cut.out_block,
                  .k = channels.count,
                  .a = {data, run.cut.data_stride, 1},
                  .a_point = run.cut.data_point,
                  .panels = filters.data,
                  .panel_rows = filters.rows,
                  .panels_point = filters.point_stride,
                  .panels_from_memory = run.cut.filters_given,
                  .c = block.sums,
                  .c_point = run.cut.sums_point,
                  .accumulate = channels.first > 0});
}

// Writes the results of a block for one block of output channels, and measures them if that is asked for.
template <class T>
void WriteBlock(const ConvRun<T>& run, const BlockOfTiles& from, int64_t block) {
  const WinogradSizes& s = run.s;
  const int64_t out = block * run.cut.out_block, count = from.tiles.count();
  WriteTiles(s, run.cut, from.tiles, out, from.sums, run.cut.sums_point, run.bias, run.activation, run.y);
  if (!run.moments.asked()) return;
  WithIsa([&](auto isa) SNUG_LAMBDA {
    for (int64_t t = 0; t < count; t += kMeasuredTiles) {
      const Pixels<T> pixels(s, run.cut, from.first + t, std::min(kMeasuredTiles, count - t), run.y + out);
      run.moments.template Measure<isa()>((from.first + t) / kMeasuredTiles, out,
                                          std::min(run.cut.out_block, s.out_channels - out), pixels.count,
                                          [&](int64_t i) SNUG_LAMBDA { return pixels.places[i]; });
    }
  });
}

// Transforms the data of the tiles that are held from `first` on, on several threads. Blocks are cut as ConvGroup cuts
// them, group by group: where a tile's data lie follows from the block that it is in.
template <class T>
void TransformHeldTiles(int threads, const ConvRun<T>& run, int64_t first, int64_t held, float* data) {
  const ConvCut& cut = run.cut;
  const int64_t pieces = Parts(cut.tile_block, kTileStep);  // of a block
  const int64_t blocks = Parts(cut.group, cut.tile_block);  // of a group
  ParallelFor(threads, Parts(held, cut.group) * blocks * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t group = unit / pieces / blocks * cut.group, from = unit % pieces * kTileStep;
      const int64_t tile = group + unit / pieces % blocks * cut.tile_block;
      const int64_t count = std::min(cut.tile_block, std::min(held, group + cut.group) - tile);
      if (from >= count) continue;
      const TileBlock block(cut, first + tile, count);
      for (int64_t c = 0; c < run.s.in_channels; c += cut.slab) {
        TransformTiles(run.s, cut, block, from, std::min(count, from + kTileStep),
                       {c, std::min(cut.slab, run.s.in_channels - c)}, run.x,
                       {data + c / cut.slab * cut.data_slab + tile * cut.data_stride, cut.data_stride, cut.data_point});
      }
    }
  });
}

// `panels`: the filters of all blocks. Workers have as many tiles each, to a few, and cut them into equal blocks.
template <class T>
void ConvWithFiltersHeld(int threads, const ConvRun<T>& run, float* data, const float* panels, float* sums) {
  const ConvCut& cut = run.cut;
  const Channels channels = {0, run.s.in_channels};
  const int64_t few = run.moments.asked() ? kMeasuredTiles : kTileStep / 2;
  ForEachWorker(threads, Parts(cut.tiles, few), [&](int64_t worker, int64_t begin, int64_t end) {
    float* const own_data = data + worker * cut.data_floats;
    float* const own_sums = sums + worker * cut.sums_floats();
    const int64_t blocks = Parts((end - begin) * few, cut.data_tiles);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t tile = (begin + (end - begin) * i / blocks) * few;
      const int64_t behind = std::min(cut.tiles, (begin + (end - begin) * (i + 1) / blocks) * few);
      const TileBlock tiles(cut, tile, behind - tile);
      TransformTiles(run.s, cut, tiles, 0, tiles.count(), channels, run.x, {own_data, cut.data_stride, cut.data_point});
      const BlockOfTiles all = {tiles, tile, own_sums};
      for (int64_t block = 0; block < cut.out_blocks; ++block) {
        MultiplyBlock(run, all, channels, own_data,
                      {panels + block * cut.filter_floats(), channels.count, cut.filter_point});
        WriteBlock(run, all, block);
      }
    }
  });
}

// The results of a group of tiles, [begin, end) of those that are held from `first` on, for a block of output channels.
// `filters` are those of all input channels, unless there is memory for a slab: then its filters are transformed there.
template <class T>
void ConvGroup(const ConvRun<T>& run, int64_t first, int64_t begin, int64_t end, int64_t block, const float* data,
               const FilterPanels& filters, float* slab, float* sums) {
  const WinogradSizes& s = run.s;
  const ConvCut& cut = run.cut;
  const auto for_each_block = [&](const auto& body) {
    for (int64_t tile = begin; tile < end; tile += cut.tile_block) {
      const TileBlock tiles(cut, first + tile, std::min(cut.tile_block, end - tile));
      body(BlockOfTiles{tiles, first + tile, sums + (tile - begin) * cut.out_block}, data + tile * cut.data_stride);
    }
  };
  for (int64_t c = 0; c < s.in_channels; c += cut.slab) {
    const Channels channels = {c, std::min(cut.slab, s.in_channels - c)};
    FilterPanels panels = {filters.data + c * PanelColumns(), filters.rows, filters.point_stride};
    if (slab != nullptr) {
      TransformFilters(s, run.filters, block * cut.out_block, channels, slab, channels.count, cut.slab_point);
      panels = {slab, channels.count, cut.slab_point};
    }
    for_each_block([&](const BlockOfTiles& tiles, const float* from) {
      MultiplyBlock(run, tiles, channels, from + c / cut.slab * cut.data_slab, panels);
    });
  }
  for_each_block([&](const BlockOfTiles& tiles, const float* /*from*/) { WriteBlock(run, tiles, block); });
}

// `own`: memory for filters of each worker, a slab's or a block's.
template <class T>
void ConvWithDataHeld(int threads, const ConvRun<T>& run, float* data, float* own, float* sums) {
  const WinogradSizes& s = run.s;
  const ConvCut& cut = run.cut;
  for (int64_t first = 0; first < cut.tiles; first += cut.data_tiles) {
    const int64_t held = std::min(cut.data_tiles, cut.tiles - first);
    TransformHeldTiles(threads, run, first, held, data);
    const int64_t groups = Parts(held, cut.group);
    ForEachWorker(threads, cut.out_blocks * groups, [&](int64_t worker, int64_t begin, int64_t end) {
      float* const own_filters = own + worker * cut.own_filter_floats();
      for (int64_t task = begin; task < end; ++task) {
        const int64_t block = task / groups, tile = task % groups * cut.group;
        FilterPanels filters = {own_filters, s.in_channels, cut.slab_point};
        if (cut.filters_given) {
          filters = {run.filters.transformed + block * cut.filter_floats(), s.in_channels, cut.filter_point};
        } else if (!cut.slabs && (task == begin || tile == 0)) {
          TransformFilters(s, run.filters, block * cut.out_block, {0, s.in_channels}, own_filters, s.in_channels,
                           cut.slab_point);
        }
        const bool in_slabs = cut.slabs && !cut.filters_given;
        ConvGroup(run, first, tile, std::min(held, tile + cut.group), block, data, filters,
                  in_slabs ? own_filters : nullptr, sums + worker * cut.sums_floats());
      }
    });
  }
}

}  // namespace
}  // namespace winograd

int64_t WinogradConvWorkspaceBytes(int threads, const WinogradSizes& s, bool transformed) {
  return winograd::ConvCut(threads, s, transformed).bytes(threads);
}

int64_t WinogradMomentsBytes(const WinogradSizes& s) {
  return PartMoments::WorkspaceBytes(Parts(winograd::Tiling(s).tiles, winograd::kMeasuredTiles), s.out_channels);
}

template <class T>
void WinogradConv(int threads, const WinogradSizes& s, const T* x, const WinogradFilters<T>& filters, const T* bias,
                  Activation activation, T* y, void* workspace, const ColumnMoments& asked) {
  const winograd::ConvCut cut(threads, s, filters.transformed != nullptr);
  const PartMoments moments(Parts(cut.tiles, winograd::kMeasuredTiles), s.out_channels, asked);
  const winograd::ProductList products = winograd::ProductsOfConv(s);
  const winograd::ConvRun<T> run = {s, cut, x, filters, bias, activation, y, moments, products};
  float* data = static_cast<float*>(workspace);
  float* panels = data + (cut.filters_held ? threads : 1) * cut.data_floats;
  float* sums = panels + cut.panel_floats(threads);
  if (cut.filters_held) {
    if (!cut.filters_given) winograd::TransformAllFilters(threads, s, filters, panels);
    winograd::ConvWithFiltersHeld(threads, run, data, cut.filters_given ? filters.transformed : panels, sums);
  } else {
    winograd::ConvWithDataHeld(threads, run, data, panels, sums);
  }
  if (!moments.asked()) return;
  for (int64_t first = 0; first < cut.tiles; first += winograd::kMeasuredTiles) {
    int64_t pixels = 0;
    for (int64_t tile = first; tile < std::min(cut.tiles, first + winograd::kMeasuredTiles); ++tile) {
      const winograd::TileAt at(cut, tile);
      pixels += at.height * at.width;
    }
    moments.SetRows(first / winograd::kMeasuredTiles, pixels);
  }
  moments.PutTogether(threads);
}

template void WinogradConv(int, const WinogradSizes&, const float*, const WinogradFilters<float>&, const float*,
                           Activation, float*, void*, const ColumnMoments&);
template void WinogradConv(int, const WinogradSizes&, const BFloat16*, const WinogradFilters<BFloat16>&,
                           const BFloat16*, Activation, BFloat16*, void*, const ColumnMoments&);

}  // namespace snug::core
