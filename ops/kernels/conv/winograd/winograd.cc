#include "ops/kernels/conv/winograd/winograd.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "engine/base/workers.h"
#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"

namespace snug::core {
namespace winograd {
namespace {

// Reads the taps of a vector of output channels from `out` on and of `count` input channels from `c` on, at most as
// many: taps[input channel][tap][output channel].
template <Isa kIsa, class T>
SNUG_INLINE void ReadTaps(const WinogradFilters<T>& filters, int64_t out, int64_t c, int64_t count, float* taps) {
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  const T* from = filters.data + out * filters.out_stride + c * filters.in_stride;
  if (filters.in_stride == kTaps)
    return TransposeRows<kLanes, kLanes>(count * kTaps, from, filters.out_stride, taps, kLanes);
  constexpr int64_t kSide = std::min<int64_t>(kLanes, 8);  // a filter has more taps than that
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t l = 0; l < kLanes; l += kSide) {
      TransposeRows<kSide, kSide>(kTaps, from + i * filters.in_stride + l * filters.out_stride, filters.out_stride,
                                  taps + i * kTaps * kLanes + l, kLanes);
    }
  }
}

// Transforms the filters of kOutBlock output channels from `out` on, for the input channels [begin, end), into panels:
// [point][panel][in_channels][columns of a panel]. Output channels that are not there get zeros.
template <Isa kIsa, class T>
SNUG_INLINE void TransformFilters(const WinogradSizes& s, const WinogradFilters<T>& filters, int64_t out, int64_t begin,
                                  int64_t end, float* panels, int64_t point_stride) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  constexpr int64_t kColumns = GemmTile<kIsa, float>::kColumns;
  static_assert(kWinogradChannels % kLanes == 0, "a vector's output channels are all there, or none is");
  for (int64_t o = 0; o < kOutBlock; o += kLanes) {
    float* panel = panels + o / kColumns * kColumns * s.in_channels + o % kColumns;
    for (int64_t first = begin; first < end; first += kLanes) {
      const int64_t count = std::min(kLanes, end - first);
      alignas(Vector) float taps[kLanes * kTaps * kLanes];
      if (out + o < s.out_channels) {
        ReadTaps<kIsa>(filters, out + o, first, count, taps);
      } else {
        std::fill_n(taps, count * kTaps * kLanes, 0.0F);
      }
      for (int64_t c = 0; c < count; ++c) {
        Vector lines[kTaps], across[3 * kIn];
        for (int64_t t = 0; t < kTaps; ++t) {
          LoadFloats(taps + (c * kTaps + (filters.reversed ? kTaps - 1 - t : t)) * kLanes, lines[t]);
        }
        for (int64_t i = 0; i < 3; ++i) TransformFilter(lines + i * 3, 1, across + i * kIn, 1);
        for (int64_t j = 0; j < kIn; ++j) {
          Vector down[kIn];
          TransformFilter(across + j, kIn, down, 1);
          for (int64_t i = 0; i < kIn; ++i) {
            StoreFloats(down[i], panel + (i * kIn + j) * point_stride + (first + c) * kColumns);
          }
        }
      }
    }
  }
}

// Transforms the sums of one tile back, for the output channels from `out` on, and writes what of it is there. Where
// the tile `next` is written is asked for on the way.
template <Isa kIsa, class T, class Function>
SNUG_INLINE void WriteTile(const WinogradSizes& s, const TileAt& at, const TileAt& next, int64_t out, const float* sums,
                           int64_t point_stride, const T* bias, const Function& function, T* y) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  const int64_t height = std::min(kOut, s.out_height - at.row);
  const int64_t width = std::min(kOut, s.out_width - at.column);
  T* const corner = y + at.ResultPixel(s) * s.out_channels + out;
  const T* const coming = y + next.ResultPixel(s) * s.out_channels + out;
  const int64_t channels = std::min(kOutBlock, s.out_channels - out);
  for (int64_t o = 0; o < channels; o += kLanes) {
    for (int64_t i = 0; i < kOut; ++i) {
      for (int64_t j = 0; j < kOut; ++j) __builtin_prefetch(coming + (i * s.out_width + j) * s.out_channels + o, 1, 3);
    }
    Vector across[kOut * kIn];
    for (int64_t j = 0; j < kIn; ++j) {
      Vector column[kIn];
      for (int64_t i = 0; i < kIn; ++i) LoadFloats(sums + (i * kIn + j) * point_stride + o, column[i]);
      TransformResult(column, 1, across + j, kIn);
    }
    Vector shift = {};
    if (bias != nullptr) LoadFloats(bias + out + o, shift);
    for (int64_t i = 0; i < height; ++i) {
      Vector line[kOut];
      TransformResult(across + i * kIn, 1, line, 1);
      for (int64_t j = 0; j < width; ++j) {
        Vector value = line[j] + shift;
        function(value);
        StoreFloats(value, corner + (i * s.out_width + j) * s.out_channels + o);
      }
    }
  }
}

// Applies `f` to every element.
template <class Vector, class F>
SNUG_INLINE void Each(Vector& v, F f) {
  constexpr int64_t kCount = sizeof(Vector) / sizeof(float);
  alignas(Vector) float values[kCount];
  std::memcpy(values, &v, sizeof(v));
  for (int64_t i = 0; i < kCount; ++i) values[i] = f(values[i]);
  std::memcpy(&v, values, sizeof(v));
}

// Calls body(function), where function(vector) applies the activation to a vector.
template <class Body>
SNUG_INLINE void WithActivationOf(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kIdentity:
      return body([](auto&) SNUG_LAMBDA {});
    case Activation::kRelu:
      return body([](auto& v) SNUG_LAMBDA { Each(v, [](float x) SNUG_LAMBDA { return x < 0.0F ? 0.0F : x; }); });
    case Activation::kRelu6:
      return body([](auto& v) SNUG_LAMBDA {
        Each(v, [](float x) SNUG_LAMBDA { return x < 0.0F ? 0.0F : x > 6.0F ? 6.0F : x; });
      });
    case Activation::kSigmoid:
      return body([](auto& v) SNUG_LAMBDA { Each(v, [](float x) SNUG_LAMBDA { return Sigmoid(x); }); });
    case Activation::kTanh:
      return body([](auto& v) SNUG_LAMBDA { Each(v, [](float x) SNUG_LAMBDA { return Tanh(x); }); });
  }
}

// ---- the convolution ----

// Where the data of many tiles are held, they are at most so many floats (5 MB), but no fewer than kHeldTiles tiles,
// and some for each worker.
constexpr int64_t kHeldFloats = 5 << 18;
constexpr int64_t kHeldTiles = 96;
// Blocks of tiles are multiples of so many.
constexpr int64_t kTileStep = 8;

// Either the transformed filters are few and all held, and each worker transforms the tiles of one block after the
// other; or the transformed data of many tiles are held, and workers multiply them with the filters of blocks of output
// channels. Workers transform these for themselves, one block after the other, where each has about as many blocks, and
// else all of them at once, to share them: then a block's tiles can be several workers'.
struct ConvCut : Tiling {
  ConvCut(int threads, const WinogradSizes& s, bool transformed)
      : Tiling(s),
        filters_given(transformed),
        filters_held(out_blocks * filter_floats() <= kFilterFloats),
        filters_shared(filters_given || filters_held || 4 * out_blocks < 3 * Parts(out_blocks, threads) * threads),
        tile_block(filters_held ? TileBlock(threads, s.in_channels) : TileBlockOfHeld(threads, s.in_channels)),
        data_tiles(filters_held ? tile_block : HeldTiles(threads, s.in_channels)),
        data_point(data_tiles * s.in_channels + kSkew),
        sums_point(tile_block * kOutBlock + kSkew) {}

  // Blocks are equal, and as many for each thread.
  int64_t TileBlock(int threads, int64_t in_channels) const {
    const int64_t most =
        std::clamp(kBlockFloats / kPoints / in_channels / kTileStep * kTileStep, kLeastTiles, kMostTiles);
    const int64_t blocks = Parts(Parts(tiles, most), threads) * threads;
    return Parts(Parts(tiles, blocks), kTileStep) * kTileStep;
  }
  int64_t HeldTiles(int threads, int64_t in_channels) const {
    const int64_t of_workers = filters_shared ? Parts(threads, out_blocks) * kMostTilesOfHeld : 0;
    const int64_t most = std::max({kHeldTiles, kHeldFloats / kPoints / in_channels, of_workers});
    return EqualPart(tiles, most / kTileStep * kTileStep, kTileStep);
  }
  // As many blocks as threads have time for in any case.
  int64_t TileBlockOfHeld(int threads, int64_t in_channels) const {
    const int64_t held = HeldTiles(threads, in_channels);
    const int64_t least = Parts(held, kMostTilesOfHeld);
    const int64_t rounds = Parts(out_blocks * least, threads);
    const int64_t blocks = filters_shared ? std::max(least, rounds * threads / out_blocks) : least;
    return Parts(Parts(held, blocks), kTileStep) * kTileStep;
  }

  int64_t data_floats() const { return kPoints * data_point; }
  int64_t sums_floats() const { return kPoints * sums_point; }
  int64_t bytes(int threads) const {
    return ((filters_held ? threads : 1) * data_floats() + panel_floats(threads) + threads * sums_floats()) * kFloat;
  }
  // For filters that are transformed here.
  int64_t panel_floats(int threads) const {
    return filters_given ? 0 : (filters_shared ? out_blocks : threads) * filter_floats();
  }

  bool filters_given;
  bool filters_held;
  bool filters_shared;  // all of them lie side by side, whoever transformed them
  int64_t tile_block;
  int64_t data_tiles;
  int64_t data_point, sums_point;
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
      for (int64_t row = at.row; row < std::min(at.row + kOut, s.out_height); ++row) {
        for (int64_t column = at.column; column < std::min(at.column + kOut, s.out_width); ++column) {
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
};

// Multiplies the transformed data of `count` tiles, from `tile` on, with the filters of one block of output channels,
// and writes the results, and measures them if that is asked for.
template <Isa kIsa, class T>
SNUG_INLINE void MultiplyAndWrite(const ConvRun<T>& run, int64_t tile, int64_t count, const float* data, int64_t block,
                                  const float* panels, float* sums) {
  const WinogradSizes& s = run.s;
  MultiplyPoints({.m = count,
                  .k = s.in_channels,
                  .a = {data, s.in_channels, 1},
                  .a_point = run.cut.data_point,
                  .panels = panels,
                  .panels_point = run.cut.filter_point,
                  .panels_from_memory = run.cut.filters_given,
                  .c = sums,
                  .c_point = run.cut.sums_point});
  const int64_t out = block * kOutBlock;
  WithActivationOf(run.activation, [&](const auto& function) SNUG_LAMBDA {
    for (int64_t t = 0; t < count; ++t) {
      WriteTile<kIsa>(s, TileAt(run.cut, tile + t), TileAt(run.cut, tile + t + 1), out, sums + t * kOutBlock,
                      run.cut.sums_point, run.bias, function, run.y);
    }
  });
  for (int64_t t = 0; run.moments.asked() && t < count; t += kMeasuredTiles) {
    const Pixels<T> pixels(s, run.cut, tile + t, std::min(kMeasuredTiles, count - t), run.y + out);
    run.moments.template Measure<kIsa>((tile + t) / kMeasuredTiles, out, std::min(kOutBlock, s.out_channels - out),
                                       pixels.count, [&](int64_t i) SNUG_LAMBDA { return pixels.places[i]; });
  }
}

// Transforms the data of tiles from `first` on, on several threads.
template <class T>
void TransformTiles(int threads, const WinogradSizes& s, const Tiling& tiling, int64_t first, int64_t count, const T* x,
                    float* data, int64_t point_stride) {
  ParallelFor(threads, count, 4, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t t = begin; t < end; ++t) {
        TransformTile<isa()>(s, TileAt(tiling, first + t), TileAt(tiling, first + t + 1), {0, s.in_channels}, x,
                             data + t * s.in_channels, point_stride);
      }
    });
  });
}

// Transforms all filters, on several threads.
template <class T>
void TransformAllFilters(int threads, const WinogradSizes& s, const Tiling& tiling, const WinogradFilters<T>& filters,
                         float* panels) {
  constexpr int64_t kChannels = kWinogradChannels;
  const int64_t parts = Parts(s.in_channels, kChannels);
  ParallelFor(threads, tiling.out_blocks * parts, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t block = unit / parts;
        const int64_t c = unit % parts * kChannels;
        TransformFilters<isa()>(s, filters, block * kOutBlock, c, std::min(s.in_channels, c + kChannels),
                                panels + block * tiling.filter_floats(), tiling.filter_point);
      }
    });
  });
}

template <class T>
void ConvWithFiltersHeld(int threads, const ConvRun<T>& run, float* data, const float* panels, float* sums) {
  const WinogradSizes& s = run.s;
  const ConvCut& cut = run.cut;
  ForEachWorker(threads, Parts(cut.tiles, cut.tile_block), [&](int64_t worker, int64_t begin, int64_t end) {
    float* own_data = data + worker * cut.data_floats();
    float* own_sums = sums + worker * cut.sums_floats();
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t tile = begin * cut.tile_block; tile < std::min(cut.tiles, end * cut.tile_block);
           tile += cut.tile_block) {
        const int64_t count = std::min(cut.tile_block, cut.tiles - tile);
        for (int64_t t = 0; t < count; ++t) {
          TransformTile<isa()>(s, TileAt(cut, tile + t), TileAt(cut, tile + t + 1), {0, s.in_channels}, run.x,
                               own_data + t * s.in_channels, cut.data_point);
        }
        for (int64_t block = 0; block < cut.out_blocks; ++block) {
          MultiplyAndWrite<isa()>(run, tile, count, own_data, block, panels + block * cut.filter_floats(), own_sums);
        }
      }
    });
  });
}

// `shared` are the filters of all blocks, if they are shared; `own` is memory for those of one, for each worker, if
// not.
template <class T>
void ConvWithDataHeld(int threads, const ConvRun<T>& run, float* data, const float* shared, float* own, float* sums) {
  const WinogradSizes& s = run.s;
  const ConvCut& cut = run.cut;
  for (int64_t first = 0; first < cut.tiles; first += cut.data_tiles) {
    const int64_t held = std::min(cut.data_tiles, cut.tiles - first);
    TransformTiles(threads, s, cut, first, held, run.x, data, cut.data_point);
    // A task is a block of output channels, with all tiles or, where filters are shared, with a block of them.
    const int64_t tiles = cut.filters_shared ? cut.tile_block : held;
    const int64_t pieces = Parts(held, tiles);
    ForEachWorker(threads, cut.out_blocks * pieces, [&](int64_t worker, int64_t begin, int64_t end) {
      float* const own_filters = cut.filters_shared ? nullptr : own + worker * cut.filter_floats();
      float* const own_sums = sums + worker * cut.sums_floats();
      WithIsa([&](auto isa) SNUG_LAMBDA {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t block = task / pieces, task_tile = task % pieces * tiles;
          if (!cut.filters_shared) {
            TransformFilters<isa()>(s, run.filters, block * kOutBlock, 0, s.in_channels, own_filters, cut.filter_point);
          }
          const float* const filters = cut.filters_shared ? shared + block * cut.filter_floats() : own_filters;
          for (int64_t tile = task_tile; tile < std::min(held, task_tile + tiles); tile += cut.tile_block) {
            MultiplyAndWrite<isa()>(run, first + tile, std::min(cut.tile_block, held - tile),
                                    data + tile * s.in_channels, block, filters, own_sums);
          }
        }
      });
    });
  }
}

// ---- kept filters ----

class WinogradFormat : public OwnFormat {
 public:
  WinogradFormat(const WinogradSizes& sizes, const Tiling& tiling)
      : OwnFormat(absl::StrCat("winograd:", sizes.in_channels, "x", sizes.out_channels),
                  tiling.out_blocks * tiling.filter_floats() * kFloat),
        sizes_(sizes),
        tiling_(tiling) {}

  bool Equals(const PackedFormat& other) const override {
    return dynamic_cast<const WinogradFormat*>(&other) != nullptr && other.tag() == tag();
  }
  void Pack(int threads, const float* from, void* to) const override { PackAny(threads, from, to); }
  void Pack(int threads, const BFloat16* from, void* to) const override { PackAny(threads, from, to); }

 private:
  template <class T>
  void PackAny(int threads, const T* from, void* to) const {
    const WinogradFilters<T> filters = {.data = from, .out_stride = sizes_.in_channels * kTaps, .in_stride = kTaps};
    TransformAllFilters(threads, sizes_, tiling_, filters, static_cast<float*>(to));
  }

  const WinogradSizes sizes_;  // its channels
  const Tiling tiling_;
};

}  // namespace
}  // namespace winograd

Layout WinogradLayout(int64_t out_channels, int64_t in_channels) {
  const WinogradSizes sizes = {.in_channels = in_channels, .out_channels = out_channels};
  return Layout::Packed(std::make_shared<winograd::WinogradFormat>(sizes, winograd::Tiling(sizes)));
}

bool IsWinograd(const Layout& layout) {
  return dynamic_cast<const winograd::WinogradFormat*>(layout.packed.get()) != nullptr;
}

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
  const winograd::ConvRun<T> run = {s, cut, x, filters, bias, activation, y, moments};
  float* data = static_cast<float*>(workspace);
  float* panels = data + (cut.filters_held ? threads : 1) * cut.data_floats();
  float* sums = panels + cut.panel_floats(threads);
  if (cut.filters_shared && !cut.filters_given) winograd::TransformAllFilters(threads, s, cut, filters, panels);
  const float* const shared = cut.filters_given ? filters.transformed : panels;
  if (cut.filters_held) {
    winograd::ConvWithFiltersHeld(threads, run, data, shared, sums);
  } else {
    winograd::ConvWithDataHeld(threads, run, data, shared, panels, sums);
  }
  if (!moments.asked()) return;
  for (int64_t first = 0; first < cut.tiles; first += winograd::kMeasuredTiles) {
    int64_t pixels = 0;
    for (int64_t tile = first; tile < std::min(cut.tiles, first + winograd::kMeasuredTiles); ++tile) {
      const winograd::TileAt at(cut, tile);
      pixels += std::min(winograd::kOut, s.out_height - at.row) * std::min(winograd::kOut, s.out_width - at.column);
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
