// The gradient of a depthwise convolution's weights: a sum over all pixels for each tap and channel.
//
// The rows of all images are cut into parts, by the shape. A part goes through its rows; in a row each vector of
// channels takes its sums, one for each tap, into registers and goes along all pixels. In the end the sums of the parts
// are added up, in order.
#include <algorithm>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/conv/depthwise/depthwise.h"
#include "ops/kernels/conv/depthwise/strips.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::ops {
namespace depthwise_weight {
namespace {

constexpr int kPixels = 4;  // are loaded at once: each number of x serves all of them
// A part has about so many elements of dy, and there are no more than kMostParts.
constexpr int64_t kPartElements = 1 << 16;
constexpr int64_t kMostParts = 64;

struct Cut {
  explicit Cut(const ConvGeometry& g)
      : rows(g.batch * g.out[0]),
        parts(std::clamp<int64_t>(rows * g.out[1] * g.in_channels / kPartElements, 1,
                                  std::clamp<int64_t>(rows, 1, kMostParts))),
        part_floats(Parts(g.in_channels, kLeastDepthwiseChannels) * kLeastDepthwiseChannels * g.taps()) {}
  int64_t rows, parts;
  int64_t part_floats;  // sums of a part: for each vector of channels [taps][lanes]
};

// A row of dy and what it meets.
template <class T>
struct RowPair {
  const T* x;  // where the first tap of the first pixel is, which may lie in the padding
  const T* dy;
  int64_t channels, in_width, out_width;
  int64_t stride, pad_left;
  depthwise::Coming *coming_x, *coming_dy;
};

// The taps of kRows lines of the window.
template <Isa kIsa, int kTaps, int kRows>
using SumsOf = typename GemmTile<kIsa, float>::Vector[kRows][kTaps];

// Adds kPixels pixels. If kInside, all columns of their window are within the row; otherwise those in [begin, end).
template <Isa kIsa, int kTaps, int kRows, int kStride, bool kInside, class T>
SNUG_INLINE void AddPixels(const RowPair<T>& r, int64_t pixel, int64_t begin, int64_t end,
                           SumsOf<kIsa, kTaps, kRows>& sums) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int kWindow = (kPixels - 1) * kStride + kTaps;
  Vector dy[kPixels];
#pragma GCC unroll 4
  for (int p = 0; p < kPixels; ++p) LoadFloats(r.dy + (pixel + p) * r.channels, dy[p]);
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    const T* line = r.x + (i * r.in_width + pixel * kStride) * r.channels;
#pragma GCC unroll 16
    for (int q = 0; q < kWindow; ++q) {
      if (!kInside && (q < begin || q >= end)) continue;
      Vector x;
      LoadFloats(line + q * r.channels, x);
#pragma GCC unroll 4
      for (int p = 0; p < kPixels; ++p) {
        const int j = q - p * kStride;
        if (j >= 0 && j < kTaps) sums[i][j] += x * dy[p];
      }
    }
  }
}

// Adds one pixel, anywhere.
template <Isa kIsa, int kTaps, int kRows, class T>
SNUG_INLINE void AddPixel(const RowPair<T>& r, int64_t pixel, SumsOf<kIsa, kTaps, kRows>& sums) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  const int64_t left = pixel * r.stride - r.pad_left;
  Vector dy;
  LoadFloats(r.dy + pixel * r.channels, dy);
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    const T* line = r.x + (i * r.in_width + pixel * r.stride) * r.channels;
#pragma GCC unroll 8
    for (int j = 0; j < kTaps; ++j) {
      if (left + j < 0 || left + j >= r.in_width) continue;
      Vector x;
      LoadFloats(line + j * r.channels, x);
      sums[i][j] += x * dy;
    }
  }
}

// Adds a row of one vector of channels to `to` [kRows * kTaps][lanes]. kStride is 0 where there are no loops for pixels
// side by side.
template <Isa kIsa, int kTaps, int kRows, int kStride, class T>
SNUG_INLINE void AddRow(const RowPair<T>& r, float* to) {
  using Tile = GemmTile<kIsa, float>;
  SumsOf<kIsa, kTaps, kRows> sums;
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kTaps; ++j) LoadFloats(to + (i * kTaps + j) * Tile::kLanes, sums[i][j]);
  }
  int64_t pixel = 0;
  if constexpr (kStride > 0) {
    constexpr int64_t kWindow = (kPixels - 1) * kStride + kTaps;
    for (; pixel + kPixels <= r.out_width; pixel += kPixels) {
      r.coming_x->Ask();
      r.coming_dy->Ask();
      const int64_t left = pixel * kStride - r.pad_left;
      if (left >= 0 && left + kWindow <= r.in_width) {
        AddPixels<kIsa, kTaps, kRows, kStride, true>(r, pixel, 0, kWindow, sums);
      } else {
        AddPixels<kIsa, kTaps, kRows, kStride, false>(r, pixel, -left, r.in_width - left, sums);
      }
    }
  }
  for (; pixel < r.out_width; ++pixel) AddPixel<kIsa, kTaps, kRows>(r, pixel, sums);
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kTaps; ++j) StoreFloats(sums[i][j], to + (i * kTaps + j) * Tile::kLanes);
  }
}

template <Isa kIsa, int kTaps, int kRows, class T>
SNUG_INLINE void AddRowOf(const RowPair<T>& r, float* to) {
  if (r.stride == 1) {
    AddRow<kIsa, kTaps, kRows, 1>(r, to);
  } else if (r.stride == 2) {
    AddRow<kIsa, kTaps, kRows, 2>(r, to);
  } else {
    AddRow<kIsa, kTaps, kRows, 0>(r, to);
  }
}

// Adds a row for the lines [begin, end) of the window: as many at a time as there are registers for sums, on AVX2 too.
template <Isa kIsa, int kTaps, class T>
SNUG_INLINE void AddLines(RowPair<T> r, int64_t begin, int64_t end, float* to) {
  const int64_t x_line = r.in_width * r.channels;
  const int64_t to_line = kTaps * GemmTile<kIsa, float>::kLanes;
  while (begin < end) {
    int64_t lines = 1;
    RowPair<T> here = r;
    here.x += begin * x_line;
    float* sums = to + begin * to_line;
    if (kTaps == 3 && end - begin >= 3) {
      AddRowOf<kIsa, kTaps, kTaps == 3 ? 3 : 1>(here, sums);
      lines = 3;
    } else if (end - begin >= 2) {
      AddRowOf<kIsa, kTaps, 2>(here, sums);
      lines = 2;
    } else {
      AddRowOf<kIsa, kTaps, 1>(here, sums);
    }
    begin += lines;
  }
}

// Adds up rows [begin, end) of an image of dy, whose row 0 is at dy, for all channels. `rest` rows of dy follow them in
// memory, here or in other images, with those of x.
template <Isa kIsa, int kTaps, class T>
SNUG_INLINE void AddStrip(const ConvGeometry& g, const T* x, const T* dy, int64_t begin, int64_t end, int64_t rest,
                          float* sums) {
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  constexpr int64_t kVectors = depthwise::VectorsOfLine<T>(kLanes);
  constexpr int64_t kElement = sizeof(T);
  const int64_t vectors = Parts(g.in_channels, kLanes);
  const int64_t x_row = g.in[1] * g.in_channels, dy_row = g.out[1] * g.in_channels;
  const int64_t read = std::min(g.in[0], (end - 1) * g.stride[0] - g.pad_begin[0] + g.kernel[0]);
  const int64_t coming = std::min(rest, end - begin);
  const int64_t calls = vectors * (end - begin) * Parts(g.out[1], kPixels);
  depthwise::Coming coming_x(x + read * x_row, coming * g.stride[0] * x_row * kElement, calls);
  depthwise::Coming coming_dy(dy + end * dy_row, coming * dy_row * kElement, calls);
  for (int64_t first = 0; first < vectors; first += kVectors) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t top = row * g.stride[0] - g.pad_begin[0];
      const int64_t first_line = std::max<int64_t>(0, -top), end_line = std::min(g.kernel[0], g.in[0] - top);
      for (int64_t v = first; v < std::min(first + kVectors, vectors); ++v) {
        const int64_t c = std::min(v * kLanes, g.in_channels - kLanes);
        AddLines<kIsa, kTaps, T>({.x = x + top * x_row - g.pad_begin[1] * g.in_channels + c,
                                  .dy = dy + row * dy_row + c,
                                  .channels = g.in_channels,
                                  .in_width = g.in[1],
                                  .out_width = g.out[1],
                                  .stride = g.stride[1],
                                  .pad_left = g.pad_begin[1],
                                  .coming_x = &coming_x,
                                  .coming_dy = &coming_dy},
                                 first_line, end_line, sums + v * g.taps() * kLanes);
      }
    }
  }
}

// Adds up the rows [begin, end) of all images.
template <Isa kIsa, int kTaps, class T>
SNUG_INLINE void AddRows(const ConvGeometry& g, const Cut& cut, const T* x, const T* dy, int64_t begin, int64_t end,
                         float* sums) {
  std::fill(sums, sums + cut.part_floats, 0.0F);
  const int64_t x_row = g.in[1] * g.in_channels, dy_row = g.out[1] * g.in_channels;
  const int64_t strip =
      depthwise::RowsOfStrip(g.out[0], (x_row * g.stride[0] + dy_row) * static_cast<int64_t>(sizeof(T)));
  while (begin < end) {
    const int64_t image = begin / g.out[0], row = begin % g.out[0];
    const int64_t rows = std::min({strip, g.out[0] - row, end - begin});
    AddStrip<kIsa, kTaps>(g, x + image * g.in[0] * x_row, dy + image * g.out[0] * dy_row, row, row + rows,
                          end - begin - rows, sums);
    begin += rows;
  }
}

// Adds up what the parts have for one vector of channels. The last one has some that the one before it has too, which
// are left to that.
template <Isa kIsa, class T>
SNUG_INLINE void AddParts(const ConvGeometry& g, const Cut& cut, const float* sums, int64_t v, T* dw) {
  using Tile = GemmTile<kIsa, float>;
  using Vector = typename Tile::Vector;
  const int64_t c = std::min(v * Tile::kLanes, g.in_channels - Tile::kLanes);
  for (int64_t t = 0; t < g.taps(); ++t) {
    const float* from = sums + (v * g.taps() + t) * Tile::kLanes;
    Vector sum = {};
    for (int64_t part = 0; part < cut.parts; ++part) {
      Vector value;
      LoadFloats(from + part * cut.part_floats, value);
      sum += value;
    }
    alignas(Vector) float lanes[Tile::kLanes];
    StoreFloats(sum, static_cast<float*>(lanes));
    for (int64_t l = v * Tile::kLanes - c; l < Tile::kLanes; ++l) dw[(c + l) * g.taps() + t] = static_cast<T>(lanes[l]);
  }
}

}  // namespace
}  // namespace depthwise_weight

template <class T>
void DepthwiseGradWeight(int threads, const ConvGeometry& g, const T* x, const T* dy, T* dw, float* workspace) {
  const depthwise_weight::Cut cut(g);
  ParallelFor(threads, cut.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = cut.rows * part / cut.parts, last = cut.rows * (part + 1) / cut.parts;
      float* sums = workspace + part * cut.part_floats;
      WithIsa([&](auto isa) SNUG_LAMBDA {
        if (g.kernel[1] == 3) {
          depthwise_weight::AddRows<isa(), 3>(g, cut, x, dy, first, last, sums);
        } else {
          depthwise_weight::AddRows<isa(), 5>(g, cut, x, dy, first, last, sums);
        }
      });
    }
  });
  constexpr int64_t kChunk = 4;  // times as many channels as any vector has
  ParallelFor(threads, Parts(g.in_channels, kLeastDepthwiseChannels), kChunk, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      constexpr int64_t kVectors = kLeastDepthwiseChannels / GemmTile<isa(), float>::kLanes;
      const int64_t vectors = Parts(g.in_channels, GemmTile<isa(), float>::kLanes);
      for (int64_t v = begin * kVectors; v < std::min(end * kVectors, vectors); ++v) {
        depthwise_weight::AddParts<isa()>(g, cut, workspace, v, dw);
      }
    });
  });
}

int64_t DepthwiseGradWeightWorkspaceBytes(const ConvGeometry& g) {
  const depthwise_weight::Cut cut(g);
  return cut.parts * cut.part_floats * static_cast<int64_t>(sizeof(float));
}

template void DepthwiseGradWeight(int, const ConvGeometry&, const float*, const float*, float*, float*);
template void DepthwiseGradWeight(int, const ConvGeometry&, const BFloat16*, const BFloat16*, BFloat16*, float*);

}  // namespace snug::core::ops
