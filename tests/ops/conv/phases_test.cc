#include "ops/kernels/conv/phases.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ops/wave.h"

namespace snug::core::ops {
namespace {

struct Window {
  int64_t taps, step;
};

// With this much padding before and behind.
ConvGeometry Geometry(const Window& window, int64_t channels, int64_t height, int64_t width, int64_t before,
                      int64_t behind) {
  ConvGeometry g;
  g.spatial = 2;
  g.batch = 2;
  g.in_channels = channels;
  g.out_channels = 48;
  g.in = {height, width, 1};
  g.kernel = {window.taps, window.taps, 1};
  g.stride = {window.step, window.step, 1};
  g.pad_begin = {before, before, 0};
  g.pad_end = {behind, behind, 0};
  for (size_t axis = 0; axis < 2; ++axis) {
    g.out[axis] = (g.in[axis] + before + behind - window.taps) / window.step + 1;
  }
  return g;
}

// Each tap of each result meets, among the phases, the element of x that it meets in x, or 0 in the padding.
void CheckPhases(const ConvGeometry& g) {
  SCOPED_TRACE(std::to_string(g.kernel[0]) + " taps in steps of " + std::to_string(g.stride[0]) + ", channels " +
               std::to_string(g.in_channels) + ", " + std::to_string(g.in[0]) + " x " + std::to_string(g.in[1]) +
               ", padding " + std::to_string(g.pad_begin[0]) + " and " + std::to_string(g.pad_end[0]));
  const WinogradSizes s = SizesOfPhases(g);
  const int64_t size = PhasesSize(g), step = g.stride[0];
  ASSERT_EQ(size, s.batch * s.in_height * s.in_width * s.in_channels + kWinogradChannels);
  const std::vector<float> x = Wave<float>(g.batch * g.in[0] * g.in[1] * g.in_channels, 0.1);
  std::vector<float> phases(static_cast<size_t>(size), -2.0F);
  TakePhases(3, g, x.data(), phases.data());
  for (int64_t image = 0; image < g.batch; ++image) {
    for (int64_t row = 0; row < g.out[0]; ++row) {
      for (int64_t column = 0; column < g.out[1]; ++column) {
        for (int64_t tap = 0; tap < g.kernel[0] * g.kernel[1]; ++tap) {
          for (int64_t c = 0; c < g.in_channels; ++c) {
            const int64_t i = tap / g.kernel[1], j = tap % g.kernel[1];
            const int64_t x_row = step * row + i - g.pad_begin[0], x_column = step * column + j - g.pad_begin[1];
            const bool there = x_row >= 0 && x_row < g.in[0] && x_column >= 0 && x_column < g.in[1];
            const int64_t of_x = ((image * g.in[0] + x_row) * g.in[1] + x_column) * g.in_channels + c;
            const int64_t phase = (i % step * step + j % step) * g.in_channels + c;
            const int64_t found =
                ((image * s.in_height + row + i / step) * s.in_width + column + j / step) * s.in_channels + phase;
            ASSERT_EQ(phases[static_cast<size_t>(found)], there ? x[static_cast<size_t>(of_x)] : 0.0F)
                << "tap " << i << ", " << j << " of result " << row << ", " << column;
          }
        }
      }
    }
  }
  // What is read and meets no tap has to be a number, or Winograd's filtering makes NaN of it.
  for (const float f : phases) ASSERT_NE(f, -2.0F);
}

constexpr Window kWindows[] = {{7, 2}, {8, 2}, {5, 2}, {7, 3}, {10, 3}, {11, 4}, {13, 4}};

TEST(Phases, HaveWhatEachTapMeets) {
  for (const Window& window : kWindows) {
    for (const int64_t channels : {1, 3, 4}) {
      for (int64_t size = window.taps; size <= window.taps + 5; ++size) {
        for (const int64_t before : {0, 1, 3, 4}) {
          for (const int64_t behind : {0, 2, 3})
            CheckPhases(Geometry(window, channels, size, size + 3, before, behind));
        }
      }
    }
  }
  CheckPhases(Geometry({7, 2}, 3, 1, 2, 6, 6));  // less data than padding
}

TEST(Phases, FiltersComeBack) {
  for (const Window& window : kWindows) {
    const ConvGeometry g = Geometry(window, 3, 20, 20, 3, 3);
    const std::vector<float> w = Wave<float>(g.out_channels * g.in_channels * window.taps * window.taps, 0.2);
    std::vector<float> filters(static_cast<size_t>(FilterPhasesSize(g)), -2.0F), back(w.size(), -2.0F);
    TakeFilterPhases(g, w.data(), filters.data());
    PutBackFilterPhases(g, filters.data(), back.data());
    EXPECT_EQ(back, w);
    size_t zeros = 0;  // where a phase has fewer taps
    for (const float f : filters) zeros += f == 0.0F ? 1 : 0;
    EXPECT_EQ(zeros, filters.size() - w.size());
  }
}

}  // namespace
}  // namespace snug::core::ops
