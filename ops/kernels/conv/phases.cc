#include "ops/kernels/conv/phases.h"

#include <algorithm>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"

namespace snug::core::ops {
namespace {

constexpr int64_t kMostSteps = 4;
// Of all phases together: it is made for convolutions of few channels, and was measured for no others.
constexpr int64_t kMostChannels = 64;
// Output channels are computed 64 at a time, so that fewer are work in vain.
constexpr int64_t kLeastFilters = 48;
// Smaller results leave too much of their tiles empty.
constexpr int64_t kLeastPixels = 8 * 8;  // of an image

int64_t StepOf(const ConvGeometry& g) { return g.stride[0]; }
int64_t PhasesOf(const ConvGeometry& g) { return StepOf(g) * StepOf(g); }
// The taps of the longest phase along an axis, and all of them.
int64_t PhaseSide(const ConvGeometry& g) { return (g.kernel[0] + StepOf(g) - 1) / StepOf(g); }
int64_t PhaseTaps(const ConvGeometry& g) { return PhaseSide(g) * PhaseSide(g); }

// What a line of phases takes of a line of x.
struct Line {
  int64_t in_width, width;  // in pixels of x, and of the phases
  int64_t channels, step, pad;
};

// Takes the phases of one line of x, which is null if it is padding's. Each pixel of the phases gets `step` pixels of
// x, which lie side by side. kTaken: how many elements these are, or 0 if that is known as it runs only.
template <int64_t kTaken, class T>
void TakeLine(const Line& line, const T* x, T* phases) {
  const int64_t taken = kTaken > 0 ? kTaken : line.step * line.channels, pixel_size = taken * line.step;
  const auto take = [&](int64_t pixel) {
    for (int64_t i = 0; i < taken; ++i) {
      const int64_t from = pixel * line.step - line.pad + i / line.channels;
      const bool there = x != nullptr && from >= 0 && from < line.in_width;
      phases[pixel * pixel_size + i] = there ? x[from * line.channels + i % line.channels] : T(0.0F);
    }
  };
  const int64_t begin = x == nullptr ? line.width : std::min(line.width, (line.pad + line.step - 1) / line.step);
  const int64_t end = std::max(begin, std::min(line.width, (line.in_width + line.pad) / line.step));
  for (int64_t pixel = 0; pixel < begin; ++pixel) take(pixel);
  for (int64_t pixel = begin; pixel < end; ++pixel) {
    std::copy_n(x + (pixel * line.step - line.pad) * line.channels, taken, phases + pixel * pixel_size);
  }
  for (int64_t pixel = end; pixel < line.width; ++pixel) take(pixel);
}

template <int64_t kTaken, class T>
void TakeLines(int threads, const ConvGeometry& g, const T* x, T* phases) {
  const WinogradSizes sizes = SizesOfPhases(g);
  const Line line = {.in_width = g.in[1],
                     .width = sizes.in_width,
                     .channels = g.in_channels,
                     .step = StepOf(g),
                     .pad = g.pad_begin[1]};
  ParallelFor(threads, g.batch * sizes.in_height, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / sizes.in_height;
      T* const to = phases + row * sizes.in_width * sizes.in_channels;
      for (int64_t phase = 0; phase < line.step; ++phase) {
        const int64_t from = row % sizes.in_height * line.step + phase - g.pad_begin[0];
        const bool there = from >= 0 && from < g.in[0];
        TakeLine<kTaken>(line, there ? x + (image * g.in[0] + from) * g.in[1] * line.channels : nullptr,
                         to + phase * line.step * line.channels);
      }
    }
  });
}

// Calls fn(place in w, place among the phases) for each tap of w, in elements.
template <class Fn>
void ForEachTap(const ConvGeometry& g, const Fn& fn) {
  const int64_t step = StepOf(g), height = g.kernel[0], width = g.kernel[1];
  for (int64_t out = 0; out < g.out_channels; ++out) {
    for (int64_t c = 0; c < g.in_channels; ++c) {
      for (int64_t i = 0; i < height; ++i) {
        for (int64_t j = 0; j < width; ++j) {
          const int64_t channel = (i % step * step + j % step) * g.in_channels + c;
          fn(((out * g.in_channels + c) * height + i) * width + j,
             (out * g.in_channels * PhasesOf(g) + channel) * PhaseTaps(g) + i / step * PhaseSide(g) + j / step);
        }
      }
    }
  }
}

}  // namespace

WhyNot WhyNotPhasesSizes(const ConvGeometry& g) {
  const int64_t step = StepOf(g), taps = PhaseSide(g);
  if (g.spatial != 2 || step == 1 || step > kMostSteps || g.stride[1] != step) {
    return ByDesign("it goes in steps of two to four");
  }
  if (taps < 3 || taps > 4 || (g.kernel[1] + step - 1) / step != taps || g.dilation[0] != 1 || g.dilation[1] != 1) {
    return ByDesign("it is for kernels of more than two steps and at most four");
  }
  if (g.in_channels * PhasesOf(g) > kMostChannels) return ByDesign("its phases are at most 64 channels");
  if (g.out_channels % kWinogradChannels != 0) return ByDesign("it wants filters by sixteen");
  if (g.out_channels < kLeastFilters) return ByDesign("it pays from 48 filters on");
  if (g.out[0] * g.out[1] < kLeastPixels) return ByDesign("it is for results of at least 64 pixels");
  return std::nullopt;
}

WinogradSizes SizesOfPhases(const ConvGeometry& g) {
  const int64_t taps = PhaseSide(g);
  return {.kind = taps == 4 ? WinogradKind::kFourTaps : WinogradKind::kPlain,
          .batch = g.batch,
          .in_height = g.out[0] + taps - 1,
          .in_width = g.out[1] + taps - 1,
          .in_channels = PhasesOf(g) * g.in_channels,
          .out_height = g.out[0],
          .out_width = g.out[1],
          .out_channels = g.out_channels};
}

int64_t PhasesSize(const ConvGeometry& g) {
  const WinogradSizes s = SizesOfPhases(g);
  return s.batch * s.in_height * s.in_width * s.in_channels + kWinogradChannels;
}

int64_t FilterPhasesSize(const ConvGeometry& g) { return g.out_channels * PhasesOf(g) * g.in_channels * PhaseTaps(g); }

template <class T>
void TakePhases(int threads, const ConvGeometry& g, const T* x, T* phases) {
  const int64_t size = PhasesSize(g);
  std::fill(phases + size - kWinogradChannels, phases + size, T(0.0F));
  switch (StepOf(g) * g.in_channels) {
    case 6:
      return TakeLines<6>(threads, g, x, phases);
    case 12:
      return TakeLines<12>(threads, g, x, phases);
    default:
      return TakeLines<0>(threads, g, x, phases);
  }
}

template <class T>
void TakeFilterPhases(const ConvGeometry& g, const T* w, T* filters) {
  std::fill_n(filters, FilterPhasesSize(g), T(0.0F));
  ForEachTap(g, [&](int64_t tap, int64_t of_phases) { filters[of_phases] = w[tap]; });
}

template <class T>
void PutBackFilterPhases(const ConvGeometry& g, const T* filters, T* w) {
  ForEachTap(g, [&](int64_t tap, int64_t of_phases) { w[tap] = filters[of_phases]; });
}

template void TakePhases(int, const ConvGeometry&, const float*, float*);
template void TakePhases(int, const ConvGeometry&, const BFloat16*, BFloat16*);
template void TakeFilterPhases(const ConvGeometry&, const float*, float*);
template void TakeFilterPhases(const ConvGeometry&, const BFloat16*, BFloat16*);
template void PutBackFilterPhases(const ConvGeometry&, const float*, float*);
template void PutBackFilterPhases(const ConvGeometry&, const BFloat16*, BFloat16*);

}  // namespace snug::core::ops
