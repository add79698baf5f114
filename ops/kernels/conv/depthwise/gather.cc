#include "ops/kernels/conv/depthwise/gather.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "engine/base/dtype.h"
#include "ops/kernels/conv/depthwise/one_pixel.h"
#include "ops/kernels/conv/depthwise/strips.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::ops {
namespace depthwise::gather {
namespace {

// What a row gathers: tap lines `taps`, taps + tap_line, ... meet the rows x, x - line, ... of dy.
template <class T>
struct Lines {
  // Those of a row of dx.
  Lines(const DepthwiseRows<T>& r, int64_t row) : line(r.in_width * r.channels) {
    tap_line = r.stride_height * r.kernel_width * r.channels;
    const int64_t at = row + r.pad_top;
    const int64_t first = at % r.stride_height, from = at / r.stride_height;
    // Of taps first, first + stride, ... and rows from, from - 1, ... those that are there.
    const int64_t skipped = std::max<int64_t>(0, from - r.in_height + 1);
    const int64_t all = std::min(Parts(r.kernel_height - first, r.stride_height), from + 1);
    count = std::max<int64_t>(0, all - skipped);
    x = r.x + (from - skipped) * line;
    taps = r.taps + first * r.kernel_width * r.channels + skipped * tap_line;
  }

  int64_t count, line, tap_line;
  const T* x;
  const float* taps;
};

// ---- steps two wide ----

constexpr int64_t kStep = 2;
// So many pixels side by side are computed at once. Each number that is loaded serves all that gather it.
constexpr int kPixels = 8;

// Computes kPixels pixels of one vector of channels, of which the first one's first tap is kPhase. `x` is the number of
// dy which that tap meets, in the first of the lines; the numbers [begin, end) beside it are in the row. kLines is
// lines.count, or 0; if kInside, all numbers that these pixels may want are in the row.
template <Isa kIsa, int kTaps, int kPhase, int kLines, bool kInside, class T>
SNUG_INLINE void GatherPixels(const Lines<T>& lines, const T* x, const float* taps, int64_t channels, int64_t begin,
                              int64_t end, T* y) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int kBefore = (kTaps - 1) / kStep, kAfter = (kPhase + kPixels - 1) / kStep;
  Vector sums[kPixels] = {};
  const int64_t count = kLines > 0 ? kLines : lines.count;
#pragma GCC unroll 2
  for (int64_t l = 0; l < count; ++l, x -= lines.line, taps += lines.tap_line) {
    Vector tap[kTaps];
#pragma GCC unroll 8
    for (int j = 0; j < kTaps; ++j) LoadFloats(taps + j * channels, tap[j]);
#pragma GCC unroll 16
    for (int q = -kBefore; q <= kAfter; ++q) {
      if (!kInside && (q < begin || q >= end)) continue;
      Vector value;
      LoadFloats(x + q * channels, value);
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) {
        const int back = (kPhase + p) / kStep - q;
        const int j = (kPhase + p) % kStep + kStep * back;
        if (back >= 0 && j < kTaps) sums[p] += value * tap[j];
      }
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) StoreFloats(sums[p], y + p * channels);
}

// Computes a row of one vector of channels, the c-th and following ones.
template <Isa kIsa, int kTaps, int kLines, class T>
SNUG_INLINE void RowOfVector(const DepthwiseRows<T>& r, const Lines<T>& lines, int64_t c, T* y,
                             std::array<Coming, 3>& coming) {
  constexpr int kBefore = (kTaps - 1) / kStep, kMostAfter = kPixels / kStep;
  for (int64_t pixel = 0; pixel < r.out_width; pixel += kPixels) {
    pixel = std::min(pixel, r.out_width - kPixels);  // some may be computed again
    const int64_t at = pixel + r.pad_left, from = at / kStep;
    const bool inside = from >= kBefore && from + kMostAfter < r.in_width;
    const auto gather = [&](auto phase, auto is_inside) SNUG_LAMBDA {
      GatherPixels<kIsa, kTaps, decltype(phase)::value, kLines, decltype(is_inside)::value>(
          lines, lines.x + from * r.channels + c, lines.taps + c, r.channels, -from, r.in_width - from,
          y + pixel * r.channels);
    };
    const auto gather_at = [&](auto phase) SNUG_LAMBDA {
      if (inside) return gather(phase, std::true_type());
      gather(phase, std::false_type());
    };
    if (at % kStep == 0) {
      gather_at(std::integral_constant<int, 0>());
    } else {
      gather_at(std::integral_constant<int, 1>());
    }
    for (Coming& lines_to_come : coming) lines_to_come.Ask();
  }
}

// Computes rows a cache line of channels at a time, so that rows meet in the first-level cache what they have in
// common.
template <Isa kIsa, int kTaps, class T>
SNUG_INLINE void Strip(const DepthwiseRows<T>& r, int64_t begin, int64_t end, T* y) {
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  constexpr int64_t kVectors = VectorsOfLine<T>(kLanes);
  const int64_t vectors = Parts(r.channels, kLanes);
  std::array<Coming, 3> coming = ComingOf(r, vectors * (end - begin) * Parts(r.out_width, kPixels));
  for (int64_t first = 0; first < vectors; first += kVectors) {
    for (int64_t row = begin; row < end; ++row) {
      const Lines<T> lines(r, row);
      T* const to = y + (row - begin) * r.out_width * r.channels;
      for (int64_t v = first; v < std::min(first + kVectors, vectors); ++v) {
        const int64_t c = std::min(v * kLanes, r.channels - kLanes);
        if (lines.count == 1) {
          RowOfVector<kIsa, kTaps, 1>(r, lines, c, to + c, coming);
        } else if (lines.count == 2) {
          RowOfVector<kIsa, kTaps, 2>(r, lines, c, to + c, coming);
        } else {
          RowOfVector<kIsa, kTaps, 0>(r, lines, c, to + c, coming);
        }
      }
    }
  }
}

// ---- any steps ----

// Computes a row of dx, here y. `r` describes the convolution with what is read and written exchanged: x is dy, whose
// height and width are in_height and in_width.
template <Isa kIsa, class T>
SNUG_INLINE void GatherRow(const DepthwiseRows<T>& r, int64_t row, T* y) {
  const Lines<T> lines(r, row);
  // Tap `first` of a line meets column `from` of dy, tap first + stride the one before, and so on.
  int64_t first = r.pad_left % r.stride_width, from = r.pad_left / r.stride_width;
  for (int64_t column = 0; column < r.out_width; ++column, y += r.channels) {
    TapList<T> list;
    for (int64_t j = first, at = from; j < r.kernel_width && at >= 0; j += r.stride_width, --at) {
      if (at >= r.in_width) continue;
      for (int64_t l = 0; l < lines.count; ++l) {
        list.Add(lines.x - l * lines.line + at * r.channels, lines.taps + l * lines.tap_line + j * r.channels);
      }
    }
    SumTaps<kIsa>(r, {0, r.channels}, list, y);
    if (++first == r.stride_width) {
      first = 0;
      ++from;
    }
  }
}

}  // namespace
}  // namespace depthwise::gather

template <class T>
void GatherRows(const DepthwiseRows<T>& rows, int64_t begin, int64_t end, T* y) {
  WithIsa([&](auto isa) SNUG_LAMBDA {
    if (rows.stride_width == depthwise::gather::kStep && rows.out_width >= depthwise::gather::kPixels) {
      return rows.kernel_width == 3 ? depthwise::gather::Strip<isa(), 3>(rows, begin, end, y)
                                    : depthwise::gather::Strip<isa(), 5>(rows, begin, end, y);
    }
    for (int64_t row = begin; row < end; ++row, y += rows.out_width * rows.channels) {
      depthwise::gather::GatherRow<isa()>(rows, row, y);
    }
  });
}

template void GatherRows(const DepthwiseRows<float>&, int64_t, int64_t, float*);
template void GatherRows(const DepthwiseRows<BFloat16>&, int64_t, int64_t, BFloat16*);

}  // namespace snug::core::ops
