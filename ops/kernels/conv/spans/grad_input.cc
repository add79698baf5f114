#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/base/bfloat16.h"
#include "engine/base/parallel.h"
#include "ops/kernels/conv/spans/lines.h"
#include "ops/kernels/conv/spans/spans.h"
#include "ops/kit/float_vectors.h"

namespace snug::core::ops {
namespace spans {
namespace {

// Packs weights into panels [lines of taps][vectors of a span][filters][lanes]; what is behind a span becomes 0.
template <class W>
void PackSpans(const ConvGeometry& g, const Sizes& s, const W* w, float* panels) {
  const int64_t lanes = LanesFor(s.span), size = VectorsFor(s.span) * lanes;
  const int64_t taps = g.kernel[0] * g.kernel[1];
  for (int64_t line = 0; line < g.kernel[0]; ++line, panels += size * g.out_channels) {
    std::fill_n(panels, size * g.out_channels, 0.0F);
    int64_t place = 0;  // in a span
    for (int64_t tap = line * g.kernel[1]; tap < (line + 1) * g.kernel[1]; ++tap) {
      for (int64_t c = 0; c < g.in_channels; ++c, ++place) {
        float* const panel = panels + place / lanes * lanes * g.out_channels + place % lanes;
        for (int64_t filter = 0; filter < g.out_channels; ++filter) {
          panel[filter * lanes] = static_cast<float>(w[(filter * g.in_channels + c) * taps + tap]);
        }
      }
    }
  }
}

// Adds the products of a pixel's gradients and a panel to one vector of the pixel's span, for kRows pixels below each
// other, whose spans do not overlap in one line of taps. The span has `columns` more numbers from this vector on. What
// is behind them stays, because not every gradient times 0 is 0.
template <Isa kIsa, int kRows>
SNUG_INLINE void AddToSpans(const ConvGeometry& g, const Sizes& s, const Results& gradients, const float* panel,
                            int64_t columns, float* to) {
  using Vector = typename GemmTile<kIsa, float>::Vector;
  typedef int32_t Words __attribute__((vector_size(sizeof(Vector))));  // NOLINT: `using` takes no dependent vector_size
  alignas(64) static constexpr int32_t kPlaces[kMostLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Words place;
  std::memcpy(&place, kPlaces, sizeof(Words));
  const Words end = Words{} + static_cast<int32_t>(columns);
  Vector sum[kRows];
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r) sum[r] = Vector{};
  AddProducts<Vector, kRows>(g.out_channels, gradients.data, gradients.line, panel, sum);
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r) {
    float* const at = to + r * g.stride[0] * s.line;
    Vector old;
    std::memcpy(&old, at, sizeof(Vector));
    const Vector all = old + sum[r];
    old = place < end ? all : old;
    std::memcpy(at, &old, sizeof(Vector));
  }
}

// Adds what `rows` lines of gradients give to the lines from the first one on that they take.
template <Isa kIsa>
SNUG_INLINE void AddToLines(const ConvGeometry& g, const Sizes& s, const Results& gradients, int64_t rows,
                            const float* panels, float* lines) {
  constexpr int64_t kLanes = GemmTile<kIsa, float>::kLanes;
  WithCount<kMostSums>(rows, [&](auto count) SNUG_LAMBDA {
    const float* panel = panels;
    for (int64_t line = 0; line < g.kernel[0]; ++line) {
      for (int64_t first = 0; first < s.span; first += kLanes, panel += g.out_channels * kLanes) {
        Results from = gradients;
        float* to = lines + line * g.dilation[0] * s.line + first;
        for (int64_t pixel = 0; pixel < g.out[1]; ++pixel, from.data += g.out_channels, to += s.step) {
          AddToSpans<kIsa, count()>(g, s, from, panel, s.span - first, to);
        }
      }
    }
  });
}

// How a task goes through lines of gradients: `rows` at a time, which together take `lines` lines of the image.
struct Steps {
  Steps(const ConvGeometry& g, const Sizes& s)
      : rows(Parts(g.out[0], Parts(g.out[0], MostRows(g, s)))),
        done(rows * g.stride[0]),
        lines(done - g.stride[0] + s.reach) {}
  static int64_t MostRows(const ConvGeometry& g, const Sizes& s) {
    const int64_t of_room = (kLinesRoom / s.line - s.reach) / g.stride[0] + 1;
    return std::max<int64_t>(1, std::min({int64_t{kMostSums}, of_room, kLinesRoom / s.result_line}));
  }

  int64_t rows;
  int64_t done;  // lines that nothing is added to later
  int64_t lines;
};

// Computes lines [begin, end) of an image's gradient.
template <class T>
class Band {
 public:
  Band(const ConvGeometry& g, const Sizes& s, int64_t begin, int64_t end, T* dx)
      : g_(g), s_(s), begin_(begin), end_(end), dx_(dx) {}

  // The lines of gradients that are needed, or whose steps leave out lines of the band.
  SNUG_INLINE int64_t first() const {
    return std::max<int64_t>(0, Parts(begin_ + g_.pad_begin[0] - s_.reach + 1, g_.stride[0]));
  }
  SNUG_INLINE int64_t last() const { return std::min(g_.out[0], (end_ - 1 + g_.pad_begin[0]) / g_.stride[0] + 1); }

  // Writes those of `count` lines that are the band's, without their padding. `from` is how many lines with padding
  // are before them.
  template <Isa kIsa>
  SNUG_INLINE void Put(IsaConstant<kIsa> isa, const float* lines, int64_t from, int64_t count) const {
    const int64_t before = g_.pad_begin[1] * g_.in_channels, line = g_.in[1] * g_.in_channels;
    const int64_t taken = std::min(s_.line - before, line);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = from + i - g_.pad_begin[0];
      if (at < begin_ || at >= end_) continue;
      T* const to = dx_ + at * line;
      if constexpr (std::is_same_v<T, BFloat16>) {
        RoundRow(isa, taken, lines + i * s_.line + before, to);
      } else {
        std::copy_n(lines + i * s_.line + before, taken, to);
      }
      std::fill(to + taken, to + line, T(0.0F));  // what no pixel of the result takes
    }
  }
  // Writes 0 to the lines behind all that are taken.
  SNUG_INLINE void PutRest(int64_t from) const {
    const int64_t line = g_.in[1] * g_.in_channels;
    const int64_t at = std::max(begin_, from - g_.pad_begin[0]);
    if (at < end_) std::fill(dx_ + at * line, dx_ + end_ * line, T(0.0F));
  }

 private:
  const ConvGeometry& g_;
  const Sizes& s_;
  int64_t begin_, end_;
  T* dx_;
};

// Computes a band from an image's gradients. Two rooms are for lines: of the image, and of the gradients.
template <Isa kIsa, class T>
SNUG_INLINE void MakeBand(IsaConstant<kIsa> isa, const ConvGeometry& g, const Sizes& s, const T* dy,
                          const float* panels, const Band<T>& band, float* lines, float* room) {
  const Steps steps(g, s);
  std::fill_n(lines, steps.lines * s.line, 0.0F);
  int64_t row = band.first();
  for (; row < band.last(); row += steps.rows) {
    const int64_t rows = std::min(steps.rows, band.last() - row);
    const Results gradients = ResultsIn(g, s, dy + row * g.out[1] * g.out_channels, rows, /*copy=*/false, room);
    WithVectorFor(isa, s.span,
                  [&](auto lanes_of) SNUG_LAMBDA { AddToLines<lanes_of()>(g, s, gradients, rows, panels, lines); });
    band.Put(isa, lines, row * g.stride[0], steps.done);
    std::copy(lines + steps.done * s.line, lines + steps.lines * s.line, lines);
    std::fill(lines + (steps.lines - steps.done) * s.line, lines + steps.lines * s.line, 0.0F);
  }
  band.Put(isa, lines, row * g.stride[0], steps.lines - steps.done);
  band.PutRest(row * g.stride[0] + steps.lines - steps.done);
}

}  // namespace
}  // namespace spans

template <class T, class W>
void SpansGradInput(int threads, const ConvGeometry& g, const T* dy, const W* w, T* dx, float* workspace) {
  const spans::Sizes s(g);
  float* const panels = workspace;
  spans::PackSpans(g, s, w, panels);
  const int64_t of_band = spans::LinesOfBand(g, s, g.in[0]), bands = Parts(g.in[0], of_band);
  const int64_t tasks = g.batch * bands;
  ParallelFor(threads, tasks, spans::TasksInChunk(g, tasks), [&](int64_t begin, int64_t end) {
    WithIsa([&](auto isa) SNUG_LAMBDA {
      alignas(64) float lines[spans::kLinesRoom];
      alignas(64) float gradients[spans::kLinesRoom];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / bands, first = task % bands * of_band;
        const spans::Band<T> band(g, s, first, std::min(g.in[0], first + of_band),
                                  dx + image * g.in[0] * g.in[1] * g.in_channels);
        spans::MakeBand(isa, g, s, dy + image * g.out[0] * g.out[1] * g.out_channels, static_cast<const float*>(panels),
                        band, static_cast<float*>(lines), static_cast<float*>(gradients));
      }
    });
  });
}

template void SpansGradInput(int, const ConvGeometry&, const float*, const float*, float*, float*);
template void SpansGradInput(int, const ConvGeometry&, const BFloat16*, const float*, BFloat16*, float*);
template void SpansGradInput(int, const ConvGeometry&, const BFloat16*, const BFloat16*, BFloat16*, float*);

}  // namespace snug::core::ops
