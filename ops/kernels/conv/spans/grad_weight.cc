#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/base/bfloat16.h"
#include "engine/base/parallel.h"
#include "ops/kernels/conv/spans/lines.h"
#include "ops/kernels/conv/spans/spans.h"

namespace snug::core::ops {
namespace spans {
namespace {

// A part's sums are [lines of taps][span][filters in whole vectors].
int64_t SumsOfPart(const ConvGeometry& g, const Sizes& s) {
  return g.kernel[0] * s.span * VectorsFor(g.out_channels) * LanesFor(g.out_channels);
}

// Lines of results that are added up in registers before they are added to the sums: so many that all lines stay in a
// first-level cache, and pixels so few that a chain of floats is short.
int64_t GradientLinesAtOnce(const ConvGeometry& g, const Sizes& s) {
  constexpr int64_t kNearFloats = 7 << 10, kMostPixels = 1024;
  const int64_t more = (s.lines_of_taps - g.stride[0]) * s.line;
  const int64_t of_cache = (kNearFloats - more) / (g.stride[0] * s.line + s.result_line);
  return std::clamp<int64_t>(std::min(of_cache, kMostPixels / g.out[1]), 1, g.out[0]);
}

// The lines of some images' pixels, and of the gradients of their results.
struct Lines {
  const float* images;
  Results gradients;
  int64_t count;  // of gradients
};

// Adds the products of kLines lines of taps, kColumns numbers of their spans each, and a vector of filters.
template <Isa kIsa, int kLines, int kColumns>
SNUG_INLINE void AddOuter(const ConvGeometry& g, const Sizes& s, const Lines& lines, int64_t tap_line, int64_t column,
                          int64_t filter, int64_t sums_row, float* sums) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  Vector sum[kLines][kColumns] = {};
  for (int64_t i = 0; i < lines.count; ++i) {
    const float* from[kLines];
    for (int l = 0; l < kLines; ++l) {
      from[l] = lines.images + (i * g.stride[0] + (tap_line + l) * g.dilation[0]) * s.line + column;
    }
    const float* gradient = lines.gradients.data + i * lines.gradients.line + filter;
    for (int64_t pixel = 0; pixel < g.out[1]; ++pixel, gradient += g.out_channels) {
      Vector d;
      std::memcpy(&d, gradient, sizeof(Vector));
#pragma GCC unroll 4
      for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 14
        for (int c = 0; c < kColumns; ++c) sum[l][c] += from[l][c] * d;
        from[l] += s.step;
      }
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 14
    for (int c = 0; c < kColumns; ++c) {
      float* const at = sums + ((tap_line + l) * s.span + column + c) * sums_row + filter;
      Vector old;
      std::memcpy(&old, at, sizeof(Vector));
      const Vector all = old + sum[l][c];
      std::memcpy(at, &all, sizeof(Vector));
    }
  }
}

// Does the lines of taps from one on, kLines at a time as long as there are so many, then fewer.
template <Isa kIsa, int kLines, int kColumns>
SNUG_INLINE void AddLinesOfTaps(const ConvGeometry& g, const Sizes& s, const Lines& lines, int64_t tap_line,
                                int64_t column, int64_t filter, int64_t sums_row, float* sums) {
  for (; tap_line + kLines <= g.kernel[0]; tap_line += kLines) {
    AddOuter<kIsa, kLines, kColumns>(g, s, lines, tap_line, column, filter, sums_row, sums);
  }
  if constexpr (kLines > 1) {
    AddLinesOfTaps<kIsa, kLines / 2, kColumns>(g, s, lines, tap_line, column, filter, sums_row, sums);
  }
}

// Adds what some lines give. Short spans of several lines of taps are done together.
template <Isa kIsa>
SNUG_INLINE void AddToSums(const ConvGeometry& g, const Sizes& s, const Lines& lines, int64_t sums_row, float* sums) {
  ForEachTile(s.span, [&](int64_t column, int64_t count) SNUG_LAMBDA {
    WithCount<kMostSums>(count, [&](auto columns) SNUG_LAMBDA {
      constexpr int kLines = 4 * columns() <= kMostSums ? 4 : 2 * columns() <= kMostSums ? 2 : 1;
      for (int64_t filter = 0; filter < g.out_channels; filter += GemmTile<kIsa, float>::kLanes) {
        AddLinesOfTaps<kIsa, kLines, columns()>(g, s, lines, 0, column, filter, sums_row, sums);
      }
    });
  });
}

// Adds up what the parts have, and puts it where weights are.
template <class W>
void PutGradient(const ConvGeometry& g, const Sizes& s, int64_t sums_row, float* sums, W* dw) {
  const int64_t size = SumsOfPart(g, s);
  for (int64_t part = 1; part < PartsOfImages(g); ++part) {
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) sums[i] += sums[part * size + i];
  }
  for (int64_t filter = 0; filter < g.out_channels; ++filter) {
    for (int64_t channel = 0; channel < g.in_channels; ++channel) {
      for (int64_t line = 0; line < g.kernel[0]; ++line) {
        for (int64_t tap = 0; tap < g.kernel[1]; ++tap) {
          const int64_t column = tap * g.in_channels + channel;
          *dw++ = static_cast<W>(sums[(line * s.span + column) * sums_row + filter]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace spans

template <class T, class W>
void SpansGradWeight(int threads, const ConvGeometry& g, const T* x, const T* dy, W* dw, float* workspace) {
  const spans::Sizes s(g);
  const int64_t parts = spans::PartsOfImages(g), at_once = spans::GradientLinesAtOnce(g, s);
  const int64_t sums_row = spans::VectorsFor(g.out_channels) * spans::LanesFor(g.out_channels);
  ParallelFor(threads, parts, 1, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      alignas(64) float images[spans::kLinesRoom];
      alignas(64) float gradients[spans::kLinesRoom];
      for (int64_t part = begin; part < end; ++part) {
        float* const sums = workspace + part * spans::SumsOfPart(g, s);
        std::fill_n(sums, spans::SumsOfPart(g, s), 0.0F);
        for (int64_t image = g.batch * part / parts; image < g.batch * (part + 1) / parts; ++image) {
          for (int64_t first = 0; first < g.out[0]; first += at_once) {
            const int64_t count = std::min(at_once, g.out[0] - first);
            spans::CopyLines(g, s, x + image * g.in[0] * g.in[1] * g.in_channels, first * g.stride[0],
                             (count - 1) * g.stride[0] + s.lines_of_taps, static_cast<float*>(images));
            // Vectors reach behind a line's last gradients, where there may be none any more.
            const int64_t behind = ((g.batch - image) * g.out[0] - first - count) * g.out[1] * g.out_channels;
            const spans::Results results =
                spans::ResultsIn(g, s, dy + (image * g.out[0] + first) * g.out[1] * g.out_channels, count,
                                 /*copy=*/behind < sums_row - g.out_channels, static_cast<float*>(gradients));
            spans::WithVectorFor(isa, g.out_channels, [&](auto lanes_of) SNUG_LAMBDA {
              spans::AddToSums<lanes_of()>(g, s, {static_cast<float*>(images), results, count}, sums_row, sums);
            });
          }
        }
      }
    });
  });
  WithIsa([&]() SNUG_LAMBDA { spans::PutGradient(g, s, sums_row, workspace, dw); });
}

template void SpansGradWeight(int, const ConvGeometry&, const float*, const float*, float*, float*);
template void SpansGradWeight(int, const ConvGeometry&, const BFloat16*, const BFloat16*, float*, float*);
template void SpansGradWeight(int, const ConvGeometry&, const BFloat16*, const BFloat16*, BFloat16*, float*);

}  // namespace snug::core::ops
