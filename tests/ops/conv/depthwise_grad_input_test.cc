// The gradient of the data of depthwise convolutions, beside sums that are written down plainly.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/bfloat16.h"
#include "ops/kernels/conv/depthwise/depthwise.h"
#include "tests/ops/wave.h"

namespace snug::core::ops {
namespace {

// Images are [batch, height, width, channels], and weights [channels, taps].
template <class T>
std::vector<double> Plain(const ConvGeometry& g, const std::vector<T>& dy, const std::vector<T>& w) {
  const int64_t channels = g.in_channels;
  std::vector<double> dx(static_cast<size_t>(g.batch * g.in[0] * g.in[1] * channels));
  for (int64_t pixel = 0; pixel < g.batch * g.out[0] * g.out[1]; ++pixel) {
    const int64_t image = pixel / (g.out[0] * g.out[1]), row = pixel / g.out[1] % g.out[0], column = pixel % g.out[1];
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      const int64_t y = row * g.stride[0] + tap / g.kernel[1] - g.pad_begin[0];
      const int64_t x = column * g.stride[1] + tap % g.kernel[1] - g.pad_begin[1];
      if (y < 0 || y >= g.in[0] || x < 0 || x >= g.in[1]) continue;
      for (int64_t c = 0; c < channels; ++c) {
        dx[static_cast<size_t>(((image * g.in[0] + y) * g.in[1] + x) * channels + c)] +=
            static_cast<double>(static_cast<float>(dy[static_cast<size_t>(pixel * channels + c)])) *
            static_cast<double>(static_cast<float>(w[static_cast<size_t>(c * g.taps() + tap)]));
      }
    }
  }
  return dx;
}

template <class T>
void Check(const ConvGeometry& g, double tolerance) {
  const std::vector<T> dy = Wave<T>(g.batch * g.out[0] * g.out[1] * g.in_channels, 0.7);
  const std::vector<T> w = Wave<T>(g.in_channels * g.taps(), 1.3);
  const std::vector<double> expected = Plain(g, dy, w);
  std::vector<T> first;
  for (const int threads : {1, 3}) {
    std::vector<T> dx(expected.size(), T(NAN));
    std::vector<float> workspace(static_cast<size_t>(DepthwiseWorkspaceBytes(g)) / sizeof(float), NAN);
    DepthwiseGradInput<T>(threads, g, dy.data(), w.data(), dx.data(), workspace.data());
    for (size_t i = 0; i < dx.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(static_cast<float>(dx[i])), expected[i], tolerance * (1 + std::fabs(expected[i])))
          << "element " << i << " of " << dx.size() << ", " << threads << " threads";
    }
    if (first.empty()) first = dx;
    ASSERT_EQ(std::memcmp(first.data(), dx.data(), dx.size() * sizeof(T)), 0) << threads << " threads";
  }
}

// Steps of one to three, padding that is none, as usual, and wider than the window, and images that are narrower than
// the pixels that are done side by side, or begin with either of two taps that take turns.
template <class T>
void CheckAll(double tolerance) {
  for (const int64_t kernel_height : {1, 3, 4}) {
    for (const int64_t kernel_width : {3, 5}) {
      for (const int64_t stride_height : {1, 2, 3, 5}) {
        for (const int64_t stride_width : {1, 2, 3}) {
          for (const int64_t pad : {0, 1, 2, 6}) {
            for (const int64_t width : {5, 8, 9, 15, 26}) {
              ConvGeometry g = {.spatial = 2,
                                .batch = 2,
                                .groups = 19,
                                .in_channels = 19,
                                .out_channels = 19,
                                .in = {7, width, 1},
                                .kernel = {kernel_height, kernel_width, 1},
                                .stride = {stride_height, stride_width, 1},
                                .pad_begin = {pad, pad, 0}};
              for (size_t axis = 0; axis < 2; ++axis) {
                g.out[axis] = (g.in[axis] + 2 * pad - g.kernel[axis]) / g.stride[axis] + 1;
              }
              SCOPED_TRACE(testing::Message()
                           << kernel_height << " x " << kernel_width << " taps, steps of " << stride_height << " and "
                           << stride_width << ", padding " << pad << ", width " << width);
              ASSERT_NO_FATAL_FAILURE(Check<T>(g, tolerance));
            }
          }
        }
      }
    }
  }
}

TEST(DepthwiseGradInput, IsTheSumOfWhatWindowsGave) { CheckAll<float>(1e-5); }
TEST(DepthwiseGradInput, AddsInFloatAndRoundsOnceInBFloat16) { CheckAll<BFloat16>(5e-3); }

}  // namespace
}  // namespace snug::core::ops
