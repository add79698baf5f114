#include "ops/kernels/conv/phases.h"

#include <algorithm>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"

namespace snug::core::ops {
namespace {

constexpr int64_t kStep = 2, kPhases = kStep * kStep;
constexpr int64_t kTaps = 7;       // along an axis
constexpr int64_t kPhaseTaps = 4;  // of the longer phase, along an axis
constexpr int64_t kFilter = kPhaseTaps * kPhaseTaps;
constexpr int64_t kMostChannels = kWinogradChannels / kPhases;
// Smaller results leave too much of their tiles empty.
constexpr int64_t kLeastPixels = 8 * 8;  // of an image

// What a line of phases takes of a line of x.
struct Line {
  int64_t in_width, width;  // in pixels of x, and of the phases
  int64_t pad;
};

// Takes the two phases of one line of x, which is null if it is padding's. Each pixel of the phases gets two pixels of
// x, which lie side by side.
template <int64_t kChannels, class T>
void TakeLine(const Line& line, const T* x, T* phases) {
  constexpr int64_t kPair = kStep * kChannels, kPixel = kPhases * kChannels;
  const auto take = [&](int64_t pixel) {
    for (int64_t i = 0; i < kPair; ++i) {
      const int64_t from = pixel * kStep - line.pad + i / kChannels;
      const bool there = x != nullptr && from >= 0 && from < line.in_width;
      phases[pixel * kPixel + i] = there ? x[from * kChannels + i % kChannels] : T(0.0F);
    }
  };
  const int64_t begin = x == nullptr ? line.width : std::min(line.width, (line.pad + kStep - 1) / kStep);
  const int64_t end = std::max(begin, std::min(line.width, (line.in_width + line.pad) / kStep));
  for (int64_t pixel = 0; pixel < begin; ++pixel) take(pixel);
  for (int64_t pixel = begin; pixel < end; ++pixel) {
    std::copy_n(x + (pixel * kStep - line.pad) * kChannels, kPair, phases + pixel * kPixel);
  }
  for (int64_t pixel = end; pixel < line.width; ++pixel) take(pixel);
}

template <int64_t kChannels, class T>
void TakePhasesOf(int threads, const ConvGeometry& g, const T* x, T* phases) {
  const WinogradSizes sizes = SizesOfPhases(g);
  const Line line = {.in_width = g.in[1], .width = sizes.in_width, .pad = g.pad_begin[1]};
  ParallelFor(threads, g.batch * sizes.in_height, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / sizes.in_height;
      for (int64_t phase = 0; phase < kStep; ++phase) {
        const int64_t from = row % sizes.in_height * kStep + phase - g.pad_begin[0];
        const bool there = from >= 0 && from < g.in[0];
        TakeLine<kChannels>(line, there ? x + (image * g.in[0] + from) * g.in[1] * kChannels : nullptr,
                            phases + row * sizes.in_width * sizes.in_channels + phase * kStep * kChannels);
      }
    }
  });
}

// Calls fn(place in w, place among the phases) for each tap of w, in elements.
template <class Fn>
void ForEachTap(const ConvGeometry& g, const Fn& fn) {
  for (int64_t out = 0; out < g.out_channels; ++out) {
    for (int64_t c = 0; c < g.in_channels; ++c) {
      for (int64_t i = 0; i < kTaps; ++i) {
        for (int64_t j = 0; j < kTaps; ++j) {
          const int64_t channel = (i % kStep * kStep + j % kStep) * g.in_channels + c;
          fn(((out * g.in_channels + c) * kTaps + i) * kTaps + j,
             (out * g.in_channels * kPhases + channel) * kFilter + i / kStep * kPhaseTaps + j / kStep);
        }
      }
    }
  }
}

}  // namespace

WhyNot WhyNotPhasesSizes(const ConvGeometry& g) {
  const auto all_are = [&](const std::array<int64_t, kMaxSpatial>& sizes, int64_t size) {
    return sizes[0] == size && sizes[1] == size;
  };
  if (g.spatial != 2 || !all_are(g.kernel, kTaps) || !all_are(g.stride, kStep) || !all_are(g.dilation, 1)) {
    return ByDesign("it is for 7 x 7 taps in steps of two");
  }
  if (g.in_channels > kMostChannels) return ByDesign("it is for at most 4 channels");
  if (g.out_channels % kWinogradChannels != 0) return ByDesign("it wants filters by sixteen");
  if (g.out[0] * g.out[1] < kLeastPixels) return ByDesign("it is for results of at least 64 pixels");
  return std::nullopt;
}

WinogradSizes SizesOfPhases(const ConvGeometry& g) {
  return {.kind = WinogradKind::kFourTaps,
          .batch = g.batch,
          .in_height = g.out[0] + kPhaseTaps - 1,
          .in_width = g.out[1] + kPhaseTaps - 1,
          .in_channels = kPhases * g.in_channels,
          .out_height = g.out[0],
          .out_width = g.out[1],
          .out_channels = g.out_channels};
}

int64_t PhasesSize(const ConvGeometry& g) {
  const WinogradSizes s = SizesOfPhases(g);
  return s.batch * s.in_height * s.in_width * s.in_channels + kWinogradChannels;
}

int64_t FilterPhasesSize(const ConvGeometry& g) { return g.out_channels * kPhases * g.in_channels * kFilter; }

template <class T>
void TakePhases(int threads, const ConvGeometry& g, const T* x, T* phases) {
  const int64_t size = PhasesSize(g);
  std::fill(phases + size - kWinogradChannels, phases + size, T(0.0F));
  switch (g.in_channels) {
    case 1:
      return TakePhasesOf<1>(threads, g, x, phases);
    case 2:
      return TakePhasesOf<2>(threads, g, x, phases);
    case 3:
      return TakePhasesOf<3>(threads, g, x, phases);
    default:
      return TakePhasesOf<kMostChannels>(threads, g, x, phases);
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
