#include "ops/kernels/conv/depthwise/depthwise.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/kernels/conv/depthwise/gather.h"
#include "ops/kernels/conv/depthwise/one_pixel.h"
#include "ops/kernels/conv/depthwise/strips.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::ops {
namespace depthwise {
namespace {

// So many pixels side by side are computed at once: each number that is loaded serves all whose windows have it.
constexpr int kPixels = 4;

// The part of a range of taps that lies within the data; `at` is where the first tap would be.
struct TapRange {
  TapRange(int64_t at, int64_t taps, int64_t size)
      : begin(std::max<int64_t>(0, -at)), end(std::max(begin, std::min(taps, size - at))) {}
  int64_t begin, end;
};

// ---- pixels side by side ----

// The taps of one vector of channels: those of kLines lines are in registers from pixel to pixel. If kLines is 0, they
// are loaded for each group of pixels.
template <Isa kIsa, int kTaps, int kLines>
struct Taps {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  SNUG_INLINE Taps(const float* first, int64_t tap_stride) : from(first), stride(tap_stride) {
#pragma GCC unroll 16
    for (int t = 0; t < kLines * kTaps; ++t) LoadFloats(from + t * stride, kept[t]);
  }
  SNUG_INLINE void Get(int64_t t, Vector& tap) const {
    if constexpr (kLines > 0) {
      tap = kept[t];
    } else {
      LoadFloats(from + t * stride, tap);
    }
  }
  const float* from;
  int64_t stride;  // between taps, and between pixels
  Vector kept[kLines > 0 ? kLines* kTaps : 1];
};

// Lines of data, one for each line of taps.
template <class T>
using Lines = std::array<const T*, kMostDepthwiseLines>;

// Adds to kPixels results what some lines of their windows have. The first pixel's first tap is `at` numbers from where
// the lines begin. If kInside, all columns of the window are within the row; otherwise those of `columns`.
template <Isa kIsa, int kTaps, int kStride, int kLines, bool kInside, class T>
SNUG_INLINE void AddLines(const Lines<T>& x, int64_t at, int64_t lines, const TapRange& columns,
                          const Taps<kIsa, kTaps, kLines>& taps,
                          typename GemmTile<kIsa, float>::Vector (&sums)[kPixels]) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int kWindow = (kPixels - 1) * kStride + kTaps;
  const int64_t count = kLines > 0 ? kLines : lines;
#pragma GCC unroll 3
  for (int64_t i = 0; i < count; ++i) {
    const T* const line = x[static_cast<size_t>(i)] + at;
    Vector tap[kTaps];
#pragma GCC unroll 8
    for (int j = 0; j < kTaps; ++j) taps.Get(i * kTaps + j, tap[j]);
#pragma GCC unroll 16
    for (int q = 0; q < kWindow; ++q) {
      if (!kInside && (q < columns.begin || q >= columns.end)) continue;
      Vector value;
      LoadFloats(line + q * taps.stride, value);
#pragma GCC unroll 4
      for (int p = 0; p < kPixels; ++p) {
        const int j = q - p * kStride;
        if (j >= 0 && j < kTaps) sums[p] += value * tap[j];
      }
    }
  }
}

// ---- rows ----

// Computes a row of one vector of channels. x is where the taps of pixel 0 are, in so many lines. kLines is `lines`, or
// 0.
template <Isa kIsa, int kTaps, int kStride, int kLines, class T>
SNUG_INLINE void RowOfVector(const DepthwiseRows<T>& r, int64_t lines, const Lines<T>& x, const float* tap,
                             const float* bias, T* y, std::array<Coming, 3>& coming) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int kWindow = (kPixels - 1) * kStride + kTaps;
  const int64_t channels = r.channels;
  const float least = r.least, most = r.most;
  const bool asks = r.coming_x_bytes + r.coming_y_bytes + r.coming_rest_bytes > 0;
  const Taps<kIsa, kTaps, kLines> taps(tap, channels);
  Vector start;
  LoadFloats(bias, start);
  for (int64_t pixel = 0; pixel < r.out_width; pixel += kPixels) {
    pixel = std::min(pixel, r.out_width - kPixels);  // some may be computed again
    Vector sums[kPixels];
#pragma GCC unroll 4
    for (int p = 0; p < kPixels; ++p) sums[p] = start;
    const TapRange columns(pixel * kStride - r.pad_left, kWindow, r.in_width);
    const int64_t at = pixel * kStride * channels;
    if (columns.begin == 0 && columns.end == kWindow) {
      AddLines<kIsa, kTaps, kStride, kLines, true>(x, at, lines, columns, taps, sums);
    } else {
      AddLines<kIsa, kTaps, kStride, kLines, false>(x, at, lines, columns, taps, sums);
    }
    if (asks) {
      for (Coming& lines_to_come : coming) lines_to_come.Ask();
    }
    T* to = y + pixel * channels;
#pragma GCC unroll 4
    for (int p = 0; p < kPixels; ++p) {
      Clamp(least, most, sums[p]);
      StoreFloats(sums[p], to + p * channels);
    }
  }
}

// Computes the rows [begin, end), a cache line of channels at a time, so that rows meet in the first-level cache what
// they have in common.
template <Isa kIsa, int kTaps, int kStride, class T>
SNUG_INLINE void Strip(const DepthwiseRows<T>& r, int64_t begin, int64_t end, const DepthwiseChannels& channels, T* y) {
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  constexpr int64_t kVectors = VectorsOfLine<T>(kLanes);
  const int64_t vectors = Parts(channels.count, kLanes);
  const int64_t calls = vectors * (end - begin) * Parts(r.out_width, kPixels);
  std::array<Coming, 3> coming = ComingOf(r, calls);
  for (int64_t first = 0; first < vectors; first += kVectors) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t top = row * r.stride_height - r.pad_top;
      const TapRange tap_rows(top, r.kernel_height, r.in_height);
      const int64_t lines = tap_rows.end - tap_rows.begin;
      for (int64_t v = first; v < std::min(first + kVectors, vectors); ++v) {
        const int64_t c = channels.first + std::min(v * kLanes, channels.count - kLanes);
        Lines<T> x = {};
        for (int64_t i = 0; i < lines; ++i) {
          x[static_cast<size_t>(i)] = r.Row(top + tap_rows.begin + i) - r.pad_left * r.channels + c;
        }
        const float* tap = r.taps + tap_rows.begin * kTaps * r.channels + c;
        T* to = y + (row - begin) * r.out_width * r.channels + c;
        if (kTaps == 3 && lines == 3) {
          RowOfVector<kIsa, kTaps, kStride, kTaps == 3 ? 3 : 0>(r, lines, x, tap, r.bias + c, to, coming);
        } else {
          RowOfVector<kIsa, kTaps, kStride, 0>(r, lines, x, tap, r.bias + c, to, coming);
        }
      }
    }
  }
}

template <Isa kIsa, int kTaps, class T>
SNUG_INLINE void PixelByPixel(const DepthwiseRows<T>& r, int64_t begin, int64_t end, const DepthwiseChannels& channels,
                              T* y) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t top = row * r.stride_height - r.pad_top;
    const TapRange tap_rows(top, r.kernel_height, r.in_height);
    for (int64_t pixel = 0; pixel < r.out_width; ++pixel, y += r.channels) {
      const int64_t left = pixel * r.stride_width - r.pad_left;
      const TapRange columns(left, kTaps, r.in_width);
      TapList<T> list;
      for (int64_t i = tap_rows.begin; i < tap_rows.end; ++i) {
        for (int64_t j = columns.begin; j < columns.end; ++j) {
          list.Add(r.Row(top + i) + (left + j) * r.channels, r.taps + (i * kTaps + j) * r.channels);
        }
      }
      SumTaps<kIsa>(r, channels, list, y);
    }
  }
}

template <Isa kIsa, int kTaps, class T>
SNUG_INLINE void RowsOf(const DepthwiseRows<T>& r, int64_t begin, int64_t end, const DepthwiseChannels& channels,
                        T* y) {
  if (r.out_width >= kPixels && r.stride_width == 1) return Strip<kIsa, kTaps, 1>(r, begin, end, channels, y);
  if (r.out_width >= kPixels && r.stride_width == 2) return Strip<kIsa, kTaps, 2>(r, begin, end, channels, y);
  PixelByPixel<kIsa, kTaps>(r, begin, end, channels, y);
}

// ---- whole images ----

// Sets taps [taps][channels] from w [channels][taps], last to first if `reversed`, and after them the bias.
template <class T>
void PackTaps(int64_t channels, int64_t taps, const T* w, const T* bias, bool reversed, float* to) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      to[(reversed ? taps - 1 - t : t) * channels + c] = static_cast<float>(w[c * taps + t]);
    }
    to[taps * channels + c] = bias == nullptr ? 0.0F : static_cast<float>(bias[c]);
  }
}

// How images are cut: into strips of rows that are written, for each of which `row_bytes` are read and written. Where
// what is written is measured, or summed, they are the parts.
struct Strips {
  Strips(int64_t images, int64_t rows_of_image, int64_t row_bytes)
      : batch(images), height(rows_of_image), rows(RowsOfStrip(height, row_bytes)), of_image(Parts(height, rows)) {}
  int64_t count() const { return batch * of_image; }

  int64_t batch, height;
  int64_t rows;  // of a strip, but the last of an image
  int64_t of_image;
};
// Rows [begin, end) of an image.
struct RowStrip {
  RowStrip(const Strips& strips, int64_t number)
      : part(number),
        image(number / strips.of_image),
        begin(number % strips.of_image * strips.rows),
        end(std::min(strips.height, begin + strips.rows)),
        first_row(image * strips.height + begin) {}
  int64_t rows() const { return end - begin; }

  int64_t part, image, begin, end;
  int64_t first_row;  // counted through all images
};

// Calls body(strip) for each.
template <class Body>
void ForEachStrip(int threads, const Strips& strips, const Body& body) {
  ParallelFor(threads, strips.count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(RowStrip(strips, i));
  });
}

template <class T>
DepthwiseRows<T> Unclamped(const ConvGeometry& g, const float* workspace) {
  return {.channels = g.in_channels,
          .taps = workspace,
          .bias = workspace + g.taps() * g.in_channels,
          .least = -std::numeric_limits<float>::infinity(),
          .most = std::numeric_limits<float>::infinity(),
          .kernel_height = g.kernel[0],
          .kernel_width = g.kernel[1]};
}

// What is read and written for a row of y.
template <class T>
int64_t RowBytes(int64_t in_width, int64_t stride_height, int64_t out_width, int64_t channels) {
  return (in_width * stride_height + out_width) * channels * static_cast<int64_t>(sizeof(T));
}

// The strips of what a convolution writes, and of the gradient of its data.
template <class T>
Strips StripsOf(const ConvGeometry& g) {
  return {g.batch, g.out[0], RowBytes<T>(g.in[1], g.stride[0], g.out[1], g.in_channels)};
}
template <class T>
Strips StripsBack(const ConvGeometry& g) {
  return {g.batch, g.in[0], RowBytes<T>(g.out[1], /*stride_height=*/1, g.in[1], g.in_channels)};
}

// What `r` computes: a convolution, or the gradient of the data of one in steps.
enum class Way { kConvolve, kGather };

// Computes y from x, whose images have the heights and widths of `r`, and calls after(strip) for each that is written.
// That reads `rest`, of the shape of y, unless it is null.
template <class T, class After>
void ComputeImages(Way way, int threads, const Strips& strips, const DepthwiseRows<T>& r, const T* x, T* y,
                   const T* rest, const After& after) {
  constexpr int64_t kElement = sizeof(T);
  const int64_t x_row = r.in_width * r.channels, y_row = r.out_width * r.channels;
  // The rows of x that are read for a strip end here, and there are so many more of them in the next one.
  const auto read_end = [&](const RowStrip& strip) {
    return way == Way::kGather ? (strip.end - 1 + r.pad_top) / r.stride_height + 1
                               : (strip.end - 1) * r.stride_height - r.pad_top + r.kernel_height;
  };
  const auto read_more = [&](const RowStrip& strip) {
    return way == Way::kGather ? Parts(strip.rows(), r.stride_height) : strip.rows() * r.stride_height;
  };
  ForEachStrip(threads, strips, [&](const RowStrip& strip) {
    DepthwiseRows<T> here = r;
    here.x = x + strip.image * r.in_height * x_row;
    // The next strip's rows follow in memory, also where it is another image's.
    const int64_t read = strip.image * r.in_height + std::min(r.in_height, read_end(strip));
    const int64_t written = strip.first_row + strip.rows();
    here.coming_x = x + read * x_row;
    here.coming_y = y + written * y_row;
    here.coming_x_bytes = std::min(read_more(strip), strips.batch * r.in_height - read) * x_row * kElement;
    here.coming_y_bytes = std::min(strip.rows(), strips.batch * strips.height - written) * y_row * kElement;
    if (rest != nullptr) {
      here.coming_rest = rest + strip.first_row * y_row;
      here.coming_rest_bytes = strip.rows() * y_row * kElement;
    }
    T* const to = y + strip.first_row * y_row;
    if (way == Way::kGather) {
      GatherRows(here, strip.begin, strip.end, to);
    } else {
      ConvolveRows(here, strip.begin, strip.end, {0, here.channels}, to);
    }
    after(strip);
  });
}

}  // namespace
}  // namespace depthwise

template <class T>
void ConvolveRows(const DepthwiseRows<T>& rows, int64_t begin, int64_t end, const DepthwiseChannels& channels, T* y) {
  WithIsa([&](auto isa) SNUG_LAMBDA {
    if (rows.kernel_width == 3) {
      depthwise::RowsOf<isa(), 3>(rows, begin, end, channels, y);
    } else {
      depthwise::RowsOf<isa(), 5>(rows, begin, end, channels, y);
    }
  });
}

template <class T>
void DepthwiseConv(int threads, const ConvGeometry& g, const T* x, const T* w, const T* bias, Activation activation,
                   T* y, float* workspace, const ColumnMoments& asked) {
  depthwise::PackTaps(g.in_channels, g.taps(), w, bias, /*reversed=*/false, workspace);
  DepthwiseRows<T> rows = depthwise::Unclamped<T>(g, workspace);
  if (activation != Activation::kIdentity) rows.least = 0;
  if (activation == Activation::kRelu6) rows.most = 6;
  rows.in_height = g.in[0];
  rows.in_width = g.in[1];
  rows.out_width = g.out[1];
  rows.stride_height = g.stride[0];
  rows.stride_width = g.stride[1];
  rows.pad_top = g.pad_begin[0];
  rows.pad_left = g.pad_begin[1];
  const depthwise::Strips strips = depthwise::StripsOf<T>(g);
  const PartMoments moments(strips.count(), g.out_channels, asked);
  const auto measure = [&](const depthwise::RowStrip& strip) {
    if (!moments.asked()) return;
    moments.SetRows(strip.part, strip.rows() * g.out[1]);
    const T* const pixels = y + strip.first_row * g.out[1] * g.out_channels;
    WithIsa([&](auto isa) SNUG_LAMBDA {
      moments.template Measure<isa()>(strip.part, 0, g.out_channels, strip.rows() * g.out[1],
                                      [=, channels = g.out_channels](int64_t i)
                                          SNUG_LAMBDA { return pixels + i * channels; });
    });
  };
  depthwise::ComputeImages<T>(depthwise::Way::kConvolve, threads, strips, rows, x, y, nullptr, measure);
  if (moments.asked()) moments.PutTogether(threads);
}

template <class T>
int64_t DepthwiseMomentsBytes(const ConvGeometry& g) {
  return PartMoments::WorkspaceBytes(depthwise::StripsOf<T>(g).count(), g.out_channels);
}

template <class T>
void DepthwiseGradInput(int threads, const ConvGeometry& g, const T* dy, const T* w, T* dx, float* workspace,
                        const NormGradient<T>& norm) {
  const bool in_steps = g.stride[0] != 1 || g.stride[1] != 1;
  depthwise::PackTaps<T>(g.in_channels, g.taps(), w, nullptr, /*reversed=*/!in_steps, workspace);
  DepthwiseRows<T> rows = depthwise::Unclamped<T>(g, workspace);
  rows.in_height = g.out[0];
  rows.in_width = g.out[1];
  rows.out_width = g.in[1];
  const depthwise::Strips strips = depthwise::StripsBack<T>(g);
  const PartGradients<T> sums(strips.count(), g.in_channels, norm);
  const auto sum = [&](const depthwise::RowStrip& strip) {
    if (!sums.asked()) return;
    const PartOfMatrix pixels = {.first_row = strip.first_row * g.in[1],
                                 .first_column = 0,
                                 .rows = strip.rows() * g.in[1],
                                 .columns = g.in_channels};
    WithIsa([&](auto isa) SNUG_LAMBDA { sums.template Take<isa()>(strip.part, pixels, dx); });
  };
  if (in_steps) {
    rows.stride_height = g.stride[0];
    rows.stride_width = g.stride[1];
    rows.pad_top = g.pad_begin[0];
    rows.pad_left = g.pad_begin[1];
  } else {
    rows.pad_top = g.kernel[0] - 1 - g.pad_begin[0];
    rows.pad_left = g.kernel[1] - 1 - g.pad_begin[1];
  }
  depthwise::ComputeImages(in_steps ? depthwise::Way::kGather : depthwise::Way::kConvolve, threads, strips, rows, dy,
                           dx, norm.x, sum);
  if (sums.asked()) sums.PutTogether(threads);
}

template <class T>
int64_t DepthwiseNormBytes(const ConvGeometry& g) {
  return PartGradients<T>::WorkspaceBytes(depthwise::StripsBack<T>(g).count(), g.in_channels);
}

int64_t DepthwiseWorkspaceBytes(const ConvGeometry& g) {
  return (g.taps() + 1) * g.in_channels * static_cast<int64_t>(sizeof(float));
}

#define SNUG_DEPTHWISE(T)                                                                                             \
  template void ConvolveRows(const DepthwiseRows<T>&, int64_t, int64_t, const DepthwiseChannels&, T*);                \
  template void DepthwiseConv(int, const ConvGeometry&, const T*, const T*, const T*, Activation, T*, float*,         \
                              const ColumnMoments&);                                                                  \
  template int64_t DepthwiseMomentsBytes<T>(const ConvGeometry&);                                                     \
  template void DepthwiseGradInput(int, const ConvGeometry&, const T*, const T*, T*, float*, const NormGradient<T>&); \
  template int64_t DepthwiseNormBytes<T>(const ConvGeometry&);
SNUG_DEPTHWISE(float)
SNUG_DEPTHWISE(BFloat16)
#undef SNUG_DEPTHWISE

}  // namespace snug::core::ops
