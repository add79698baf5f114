#include "ops/kernels/conv/winograd.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"

namespace snug::core {
namespace {

// ---- the transforms, one axis at a time ----

constexpr float kA = 0.625F, kB = 1.5F;  // the points, with their opposites
constexpr float kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;
constexpr float kG0 = 1 / (kA2 * kB2);
constexpr float kGA = 1 / (2 * kA2 * (kA2 - kB2));
constexpr float kGB = 1 / (2 * kB2 * (kB2 - kA2));

constexpr int64_t kOut = 4;             // elements of a tile's result along an axis
constexpr int64_t kIn = 6;              // of its data
constexpr int64_t kPoints = kIn * kIn;  // products of a tile and a pair of channels
constexpr int64_t kTaps = 9;

// Each goes through `from` and `to` in steps.
template <class V>
SNUG_INLINE void TransformData(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V d0 = from[0], d1 = from[from_step], d2 = from[2 * from_step], d3 = from[3 * from_step],
          d4 = from[4 * from_step], d5 = from[5 * from_step];
  const V even_a = d4 - d2 * kB2, odd_a = (d3 - d1 * kB2) * kA;
  const V even_b = d4 - d2 * kA2, odd_b = (d3 - d1 * kA2) * kB;
  to[0] = d0 * (kA2 * kB2) - d2 * (kA2 + kB2) + d4;
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = d1 * (kA2 * kB2) - d3 * (kA2 + kB2) + d5;
}

template <class V>
SNUG_INLINE void TransformFilter(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V g0 = from[0], g1 = from[from_step], g2 = from[2 * from_step];
  const V even_a = (g0 + g2 * kA2) * kGA, odd_a = g1 * (kA * kGA);
  const V even_b = (g0 + g2 * kB2) * kGB, odd_b = g1 * (kB * kGB);
  to[0] = g0 * kG0;
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = g2;
}

template <class V>
SNUG_INLINE void TransformResult(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V sum_a = from[from_step] + from[2 * from_step], difference_a = from[from_step] - from[2 * from_step];
  const V sum_b = from[3 * from_step] + from[4 * from_step], difference_b = from[3 * from_step] - from[4 * from_step];
  to[0] = from[0] + sum_a + sum_b;
  to[to_step] = difference_a * kA + difference_b * kB;
  to[2 * to_step] = sum_a * kA2 + sum_b * kB2;
  to[3 * to_step] = difference_a * kA3 + difference_b * kB3 + from[5 * from_step];
}

// The gradients of these: TransformResult's, which is for dy, and TransformFilter's.
template <class V>
SNUG_INLINE void TransformResultGrad(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V y0 = from[0], y1 = from[from_step], y2 = from[2 * from_step], y3 = from[3 * from_step];
  const V even_a = y0 + y2 * kA2, odd_a = y1 * kA + y3 * kA3;
  const V even_b = y0 + y2 * kB2, odd_b = y1 * kB + y3 * kB3;
  to[0] = y0;
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = y3;
}

template <class V>
SNUG_INLINE void TransformFilterGrad(const V* from, int64_t from_step, V* to, int64_t to_step) {
  const V sum_a = (from[from_step] + from[2 * from_step]) * kGA;
  const V difference_a = (from[from_step] - from[2 * from_step]) * (kA * kGA);
  const V sum_b = (from[3 * from_step] + from[4 * from_step]) * kGB;
  const V difference_b = (from[3 * from_step] - from[4 * from_step]) * (kB * kGB);
  to[0] = from[0] * kG0 + sum_a + sum_b;
  to[to_step] = difference_a + difference_b;
  to[2 * to_step] = sum_a * kA2 + sum_b * kB2 + from[5 * from_step];
}

// ---- how the work is cut ----

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// So many output channels are worked at together.
constexpr int64_t kOutBlock = 64;
// All transformed filters are held if these are few floats (3 MB), else those of one block.
constexpr int64_t kFilterFloats = 3 << 18;
// Transformed data and sums of a block of tiles stay in the second-level cache: each takes about so many floats (0.4
// MB).
constexpr int64_t kBlockFloats = 1 << 17;
constexpr int64_t kMostTiles = 48, kLeastTiles = 24;
// Where the data of many tiles are held, they are at most so many floats (5 MB), but no fewer than kHeldTiles tiles.
constexpr int64_t kHeldFloats = 5 << 18;
constexpr int64_t kHeldTiles = 96;
// Floats between the ends of what belongs to one point and the beginning of the next: without them 36 stores in a row
// would often fall into one set of the first-level cache.
constexpr int64_t kSkew = 16;
// Along input channels the products are cut like this, so that a panel of filters stays in the first-level cache.
constexpr int64_t kDepth = 256;

// Tiles, and blocks of output channels. What belongs to one of the 36 points lies together, in `..._point` floats.
struct Tiling {
  explicit Tiling(const WinogradSizes& s)
      : rows(Parts(s.out_height, kOut)),
        columns(Parts(s.out_width, kOut)),
        tiles(s.batch * rows * columns),
        out_blocks(Parts(s.out_channels, kOutBlock)),
        filter_point(s.in_channels * kOutBlock + kSkew) {}

  // The transformed filters, or sums of gradients, of one block of output channels.
  int64_t filter_floats() const { return kPoints * filter_point; }

  int64_t rows, columns, tiles;  // of tiles: in an image, and in all
  int64_t out_blocks;
  int64_t filter_point;
};

int64_t HeldTiles(int64_t tiles, int64_t channels) {
  return std::min(tiles, std::max(kHeldTiles, kHeldFloats / kPoints / channels));
}

// ---- loads and stores ----

template <Isa kIsa>
using VectorOf = typename GemmTile<kIsa, float>::Vector;
template <Isa kIsa>
inline constexpr int64_t kLanesOf = GemmTile<kIsa, float>::kLanes;

// Where a tile begins in its image.
struct TileAt {
  TileAt(const Tiling& tiling, int64_t tile)
      : image(tile / (tiling.rows * tiling.columns)),
        row(tile / tiling.columns % tiling.rows * kOut),
        column(tile % tiling.columns * kOut) {}
  int64_t image, row, column;  // of the result
};

// ---- transforms of tiles and filters ----

// Transforms the data of one tile, all its channels: data[point * point_stride + channel].
template <Isa kIsa, class T>
SNUG_INLINE void TransformTile(const WinogradSizes& s, const TileAt& at, const T* x, float* data,
                               int64_t point_stride) {
  using Vector = VectorOf<kIsa>;
  const int64_t top = at.row - s.pad_top;
  const int64_t left = at.column - s.pad_left;
  const bool inside = top >= 0 && left >= 0 && top + kIn <= s.in_height && left + kIn <= s.in_width;
  const T* image = x + at.image * s.in_height * s.in_width * s.in_channels;
  const T* corner = image + (top * s.in_width + left) * s.in_channels;
  for (int64_t c = 0; c < s.in_channels; c += kLanesOf<kIsa>) {
    Vector across[kPoints];
    for (int64_t i = 0; i < kIn; ++i) {
      Vector line[kIn];
      for (int64_t j = 0; j < kIn; ++j) {
        const bool there = inside || (top + i >= 0 && top + i < s.in_height && left + j >= 0 && left + j < s.in_width);
        line[j] = Vector{};
        if (there) LoadFloats(corner + (i * s.in_width + j) * s.in_channels + c, line[j]);
      }
      TransformData(line, 1, across + i * kIn, 1);
    }
    for (int64_t j = 0; j < kIn; ++j) {
      Vector down[kIn];
      TransformData(across + j, kIn, down, 1);
      for (int64_t i = 0; i < kIn; ++i) StoreFloats(down[i], data + (i * kIn + j) * point_stride + c);
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
  for (int64_t o = 0; o < kOutBlock; o += kLanes) {
    float* panel = panels + o / kColumns * kColumns * s.in_channels + o % kColumns;
    for (int64_t c = begin; c < end; ++c) {
      alignas(Vector) float taps[kTaps][kLanes] = {};
      for (int64_t l = 0; l < kLanes && out + o + l < s.out_channels; ++l) {
        const T* filter = filters.data + (out + o + l) * filters.out_stride + c * filters.in_stride;
        for (int64_t t = 0; t < kTaps; ++t) {
          taps[t][l] = static_cast<float>(filter[filters.reversed ? kTaps - 1 - t : t]);
        }
      }
      Vector lines[kTaps], across[3 * kIn];
      std::memcpy(lines, taps, sizeof(lines));
      for (int64_t i = 0; i < 3; ++i) TransformFilter(lines + i * 3, 1, across + i * kIn, 1);
      for (int64_t j = 0; j < kIn; ++j) {
        Vector down[kIn];
        TransformFilter(across + j, kIn, down, 1);
        for (int64_t i = 0; i < kIn; ++i) StoreFloats(down[i], panel + (i * kIn + j) * point_stride + c * kColumns);
      }
    }
  }
}

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

// Transforms the sums of one tile back, for the output channels from `out` on, and writes what of it is there.
template <Isa kIsa, class T, class Function>
SNUG_INLINE void WriteTile(const WinogradSizes& s, const TileAt& at, int64_t out, const float* sums,
                           int64_t point_stride, const T* bias, const Function& function, T* y) {
  using Vector = VectorOf<kIsa>;
  constexpr int64_t kLanes = kLanesOf<kIsa>;
  const int64_t height = std::min(kOut, s.out_height - at.row);
  const int64_t width = std::min(kOut, s.out_width - at.column);
  T* corner = y + ((at.image * s.out_height + at.row) * s.out_width + at.column) * s.out_channels + out;
  const int64_t channels = std::min(kOutBlock, s.out_channels - out);
  for (int64_t o = 0; o < channels; o += kLanes) {
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

// c [m, kOutBlock] (+)= a [m, k] panels, where the panels of b are `panel_rows` rows long.
template <Isa kIsa>
SNUG_INLINE void MultiplyOutBlock(IsaConstant<kIsa> isa, int64_t m, int64_t k, StridedMatrix<float> a,
                                  const float* panels, int64_t panel_rows, float* c, bool accumulate) {
  using Tile = GemmTile<kIsa, float>;
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    for (int64_t j = 0; j < kOutBlock; j += Tile::kColumns) {
      const float* panel = panels + j * panel_rows + p * Tile::kColumns;
      for (int64_t i = 0; i < m; i += Tile::kRows) {
        MultiplyTile(isa, std::min<int64_t>(Tile::kRows, m - i), depth, a.At(i, p), panel, Tile::kColumns,
                     c + i * kOutBlock + j, kOutBlock, accumulate || p > 0);
      }
    }
  }
}

// Transforms the data of tiles from `first` on, on several threads.
template <class T>
void TransformTiles(int threads, const WinogradSizes& s, const Tiling& tiling, int64_t first, int64_t count, const T* x,
                    float* data, int64_t point_stride) {
  ParallelFor(threads, count, 4, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      for (int64_t t = begin; t < end; ++t) {
        TransformTile<isa()>(s, TileAt(tiling, first + t), x, data + t * s.in_channels, point_stride);
      }
    });
  });
}

// ---- the convolution ----

// Either all transformed filters are held, and each worker transforms the tiles of one block after the other; or, where
// filters are many and tiles few, the transformed data of many tiles are held, and each worker transforms the filters
// of one block of output channels after the other.
struct ConvCut : Tiling {
  ConvCut(int threads, const WinogradSizes& s, bool transformed)
      : Tiling(s),
        filters_given(transformed),
        filters_held(out_blocks * filter_floats() <= kFilterFloats),
        tile_block(TileBlock(threads, s)),
        data_tiles(filters_held ? tile_block : HeldTiles(tiles, s.in_channels)),
        data_point(data_tiles * s.in_channels + kSkew),
        sums_point(tile_block * kOutBlock + kSkew) {}

  // Blocks are equal, and as many for each thread.
  int64_t TileBlock(int threads, const WinogradSizes& s) const {
    constexpr int64_t kStep = 8;
    const int64_t most =
        filters_held ? std::clamp(kBlockFloats / kPoints / s.in_channels / kStep * kStep, kLeastTiles, kMostTiles)
                     : kMostTiles;
    const int64_t blocks = Parts(Parts(tiles, most), threads) * threads;
    return Parts(Parts(tiles, blocks), kStep) * kStep;
  }

  int64_t data_floats() const { return kPoints * data_point; }
  int64_t sums_floats() const { return kPoints * sums_point; }
  int64_t bytes(int threads) const {
    return ((filters_held ? threads : 1) * data_floats() + panel_floats(threads) + threads * sums_floats()) * kFloat;
  }
  // For filters that are transformed here.
  int64_t panel_floats(int threads) const {
    return filters_given ? 0 : (filters_held ? out_blocks : threads) * filter_floats();
  }

  bool filters_given;
  bool filters_held;
  int64_t tile_block;
  int64_t data_tiles;
  int64_t data_point, sums_point;
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
};

// Multiplies the transformed data of `count` tiles, from `tile` on, with the filters of one block of output channels,
// and writes the results.
template <Isa kIsa, class T>
SNUG_INLINE void MultiplyAndWrite(IsaConstant<kIsa> isa, const ConvRun<T>& run, int64_t tile, int64_t count,
                                  const float* data, int64_t block, const float* panels, float* sums) {
  const WinogradSizes& s = run.s;
  for (int64_t point = 0; point < kPoints; ++point) {
    MultiplyOutBlock(isa, count, s.in_channels, {data + point * run.cut.data_point, s.in_channels, 1},
                     panels + point * run.cut.filter_point, s.in_channels, sums + point * run.cut.sums_point,
                     /*accumulate=*/false);
  }
  WithActivationOf(run.activation, [&](const auto& function) SNUG_LAMBDA {
    for (int64_t t = 0; t < count; ++t) {
      WriteTile<kIsa>(s, TileAt(run.cut, tile + t), block * kOutBlock, sums + t * kOutBlock, run.cut.sums_point,
                      run.bias, function, run.y);
    }
  });
}

// Calls body(worker, first, last) for runs of [0, tasks), one for each thread.
template <class Body>
void ForEachWorker(int threads, int64_t tasks, const Body& body) {
  const int64_t workers = std::min<int64_t>(threads, tasks);
  ParallelFor(threads, workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t w = begin; w < end; ++w) body(w, tasks * w / workers, tasks * (w + 1) / workers);
  });
}

// Transforms all filters, on several threads.
template <class T>
void TransformAllFilters(int threads, const WinogradSizes& s, const Tiling& tiling, const WinogradFilters<T>& filters,
                         float* panels) {
  constexpr int64_t kChannels = 8;
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
          TransformTile<isa()>(s, TileAt(cut, tile + t), run.x, own_data + t * s.in_channels, cut.data_point);
        }
        for (int64_t block = 0; block < cut.out_blocks; ++block) {
          MultiplyAndWrite(isa, run, tile, count, own_data, block, panels + block * cut.filter_floats(), own_sums);
        }
      }
    });
  });
}

template <class T>
void ConvWithDataHeld(int threads, const ConvRun<T>& run, float* data, float* panels, float* sums) {
  const WinogradSizes& s = run.s;
  const ConvCut& cut = run.cut;
  for (int64_t first = 0; first < cut.tiles; first += cut.data_tiles) {
    const int64_t held = std::min(cut.data_tiles, cut.tiles - first);
    TransformTiles(threads, s, cut, first, held, run.x, data, cut.data_point);
    ForEachWorker(threads, cut.out_blocks, [&](int64_t worker, int64_t begin, int64_t end) {
      float* own_panels = panels + worker * cut.filter_floats();  // unless they are given
      float* own_sums = sums + worker * cut.sums_floats();
      WithIsa([&](auto isa) SNUG_LAMBDA {
        for (int64_t block = begin; block < end; ++block) {
          const float* filters = own_panels;
          if (cut.filters_given) {
            filters = run.filters.transformed + block * cut.filter_floats();
          } else {
            TransformFilters<isa()>(s, run.filters, block * kOutBlock, 0, s.in_channels, own_panels, cut.filter_point);
          }
          for (int64_t tile = 0; tile < held; tile += cut.tile_block) {
            MultiplyAndWrite(isa, run, first + tile, std::min(cut.tile_block, held - tile), data + tile * s.in_channels,
                             block, filters, own_sums);
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

Layout WinogradLayout(int64_t out_channels, int64_t in_channels) {
  const WinogradSizes sizes = {.in_channels = in_channels, .out_channels = out_channels};
  return Layout::Packed(std::make_shared<WinogradFormat>(sizes, Tiling(sizes)));
}

bool IsWinograd(const Layout& layout) { return dynamic_cast<const WinogradFormat*>(layout.packed.get()) != nullptr; }

int64_t WinogradConvWorkspaceBytes(int threads, const WinogradSizes& s, bool transformed) {
  return ConvCut(threads, s, transformed).bytes(threads);
}

template <class T>
void WinogradConv(int threads, const WinogradSizes& s, const T* x, const WinogradFilters<T>& filters, const T* bias,
                  Activation activation, T* y, void* workspace) {
  const ConvCut cut(threads, s, filters.transformed != nullptr);
  const ConvRun<T> run = {s, cut, x, filters, bias, activation, y};
  float* data = static_cast<float*>(workspace);
  float* panels = data + (cut.filters_held ? threads : 1) * cut.data_floats();
  float* sums = panels + cut.panel_floats(threads);
  if (!cut.filters_held) return ConvWithDataHeld(threads, run, data, panels, sums);
  if (!cut.filters_given) TransformAllFilters(threads, s, cut, filters, panels);
  ConvWithFiltersHeld(threads, run, data, cut.filters_given ? filters.transformed : panels, sums);
}

template void WinogradConv(int, const WinogradSizes&, const float*, const WinogradFilters<float>&, const float*,
                           Activation, float*, void*);
template void WinogradConv(int, const WinogradSizes&, const BFloat16*, const WinogradFilters<BFloat16>&,
                           const BFloat16*, Activation, BFloat16*, void*);

// ---- the gradient of the filters ----

namespace {

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

}  // namespace

int64_t WinogradGradWeightWorkspaceBytes(int /*threads*/, const WinogradSizes& s) { return GradWeightCut(s).bytes(); }

template <class T>
void WinogradGradWeight(int threads, const WinogradSizes& s, const T* x, const T* dy, T* dw, void* workspace) {
  const GradWeightCut cut(s);
  float* data = static_cast<float*>(workspace);
  float* grads = data + cut.data_floats();
  float* sums = grads + cut.group * cut.grad_floats();
  for (int64_t first_block = 0; first_block < cut.out_blocks; first_block += cut.group) {
    const int64_t blocks = std::min(cut.group, cut.out_blocks - first_block);
    for (int64_t first = 0; first < cut.tiles; first += cut.held_tiles) {
      const int64_t count = std::min(cut.held_tiles, cut.tiles - first);
      const bool there = first_block > 0 && cut.held_tiles == cut.tiles;
      if (!there) TransformTiles(threads, s, cut, first, count, x, data, cut.data_point);
      AddTiles(threads, s, cut, first_block, blocks, first, count, dy, data, grads, sums);
    }
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
}

template void WinogradGradWeight(int, const WinogradSizes&, const float*, const float*, float*, void*);
template void WinogradGradWeight(int, const WinogradSizes&, const BFloat16*, const BFloat16*, BFloat16*, void*);

}  // namespace snug::core
