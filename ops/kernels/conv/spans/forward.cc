#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/base/bfloat16.h"
#include "engine/base/parallel.h"
#include "ops/kernels/conv/spans/lines.h"
#include "ops/kernels/conv/spans/spans.h"
#include "ops/kernels/matmul/finish.h"

namespace snug::core::ops {
namespace spans {
namespace {

// Lines of results that a task makes: those of the image that they take stay in a first-level cache, as far as may be.
int64_t LinesOfTask(const ConvGeometry& g, const Sizes& s) {
  constexpr int64_t kNearFloats = 12 << 10;
  const int64_t of_cache = (kNearFloats / s.line - s.lines_of_taps) / g.stride[0] + 1;
  return std::clamp<int64_t>(of_cache, 1, LinesOfBand(g, s, g.out[0]));
}

// Packs weights into panels [vectors of filters][lines of taps][span][lanes]; filters that there are not become 0.
template <class W>
void PackFilters(const ConvGeometry& g, const W* w, float* panels) {
  const int64_t lanes = LanesFor(g.out_channels), size = VectorsFor(g.out_channels) * lanes;
  const int64_t taps = g.kernel[0] * g.kernel[1], panel_size = taps * g.in_channels * lanes;
  for (int64_t filter = 0; filter < size; ++filter) {
    float* panel = panels + filter / lanes * panel_size + filter % lanes;
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < g.in_channels; ++c, panel += lanes) {
        *panel = filter < g.out_channels ? static_cast<float>(w[(filter * g.in_channels + c) * taps + tap]) : 0.0F;
      }
    }
  }
}

// What the sums of a line of results are made of, for one vector of filters: the first line that it takes, a panel and
// the biases.
struct Factors {
  const float *lines, *panel, *bias;
};

// Sets sums [kPixels, filters] of pixels beside each other, from `from` on in each line. Lanes without a filter are
// written, too.
template <Isa kIsa, int kPixels>
SNUG_INLINE void SumPixels(const ConvGeometry& g, const Sizes& s, const Factors& factors, int64_t from, float* sums) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  Vector sum[kPixels];
#pragma GCC unroll 14
  for (int p = 0; p < kPixels; ++p) std::memcpy(&sum[p], factors.bias, sizeof(Vector));
  for (int64_t line = 0; line < g.kernel[0]; ++line) {
    AddProducts<Vector, kPixels>(s.span, factors.lines + line * g.dilation[0] * s.line + from, s.step,
                                 factors.panel + line * s.span * kLanes, sum);
  }
#pragma GCC unroll 14
  for (int p = 0; p < kPixels; ++p) std::memcpy(sums + p * g.out_channels, &sum[p], sizeof(Vector));
}

// Computes a line of sums [pixels, filters] from the first line that it takes. The last vector of filters comes first,
// because its other lanes are written where the next pixel's sums belong.
template <Isa kIsa>
SNUG_INLINE void SumLine(const ConvGeometry& g, const Sizes& s, const float* lines, const float* panels,
                         const float* bias, float* sums) {
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  ForEachTile(g.out[1], [&](int64_t pixel, int64_t count) SNUG_LAMBDA {
    WithCount<kMostSums>(count, [&](auto pixels) SNUG_LAMBDA {
      for (int64_t filter = (Parts(g.out_channels, kLanes) - 1) * kLanes; filter >= 0; filter -= kLanes) {
        const Factors factors = {lines, panels + filter * g.kernel[0] * s.span, bias + filter};
        SumPixels<kIsa, pixels()>(g, s, factors, pixel * s.step, sums + pixel * g.out_channels + filter);
      }
    });
  });
}

}  // namespace
}  // namespace spans

template <class T, class W>
void SpansConv(int threads, const ConvGeometry& g, const T* x, const W* w, const W* bias, Activation activation, T* y,
               float* workspace) {
  using spans::Sizes;
  const Sizes s(g);
  const int64_t filters = spans::VectorsFor(g.out_channels) * spans::LanesFor(g.out_channels);
  float* const biases = workspace;
  float* const panels = biases + filters;
  for (int64_t i = 0; i < filters; ++i) {
    biases[i] = bias != nullptr && i < g.out_channels ? static_cast<float>(bias[i]) : 0.0F;
  }
  spans::PackFilters(g, w, panels);

  const int64_t of_task = spans::LinesOfTask(g, s), bands = Parts(g.out[0], of_task);
  const int64_t line = g.out[1] * g.out_channels;  // of y
  const int64_t chunk = spans::TasksInChunk(g, g.batch * bands);
  ParallelFor(threads, g.batch * bands, chunk, [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      alignas(64) float lines[spans::kLinesRoom];
      alignas(64) float sums[spans::kLinesRoom];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / bands, first = task % bands * of_task;
        const int64_t count = std::min(of_task, g.out[0] - first);
        spans::CopyLines(g, s, x + image * g.in[0] * g.in[1] * g.in_channels, first * g.stride[0],
                         (count - 1) * g.stride[0] + s.lines_of_taps, static_cast<float*>(lines));
        for (int64_t i = 0; i < count; ++i) {
          spans::WithVectorFor(isa, g.out_channels, [&](auto lanes_of) SNUG_LAMBDA {
            spans::SumLine<lanes_of()>(g, s, lines + i * g.stride[0] * s.line, panels, biases,
                                       static_cast<float*>(sums));
          });
          FinishProduct(isa, activation, 1, line, static_cast<const float*>(sums), line,
                        static_cast<const float*>(nullptr), y + (image * g.out[0] + first + i) * line, line);
        }
      }
    });
  });
}

template void SpansConv(int, const ConvGeometry&, const float*, const float*, const float*, Activation, float*, float*);
template void SpansConv(int, const ConvGeometry&, const BFloat16*, const float*, const float*, Activation, BFloat16*,
                        float*);
template void SpansConv(int, const ConvGeometry&, const BFloat16*, const BFloat16*, const BFloat16*, Activation,
                        BFloat16*, float*);

}  // namespace snug::core::ops
