// Gradients of weights as products of patches, beside sums that are written down plainly.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/bfloat16.h"
#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/matmul/tall.h"
#include "tests/ops/wave.h"

namespace snug::core {
namespace {

using ops::ConvGeometry;

// Data is [batch, spatial..., channels], and the gradient [out_channels, in_channels, taps].
template <class T>
std::vector<double> Plain(const ConvGeometry& g, const std::vector<T>& x, const std::vector<T>& dy) {
  std::vector<double> dw(static_cast<size_t>(g.out_channels * g.in_channels * g.taps()));
  const int64_t pixels = g.out[0] * g.out[1] * g.out[2];
  for (int64_t pixel = 0; pixel < g.batch * pixels; ++pixel) {
    const int64_t image = pixel / pixels;
    const int64_t at[] = {pixel / (g.out[1] * g.out[2]) % g.out[0], pixel / g.out[2] % g.out[1], pixel % g.out[2]};
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      const int64_t of[] = {tap / (g.kernel[1] * g.kernel[2]), tap / g.kernel[2] % g.kernel[1], tap % g.kernel[2]};
      int64_t from = image;
      bool inside = true;
      for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t place = at[axis] * g.stride[axis] + of[axis] * g.dilation[axis] - g.pad_begin[axis];
        inside = inside && place >= 0 && place < g.in[axis];
        from = from * g.in[axis] + place;
      }
      if (!inside) continue;
      for (int64_t o = 0; o < g.out_channels; ++o) {
        const auto gradient =
            static_cast<double>(static_cast<float>(dy[static_cast<size_t>(pixel * g.out_channels + o)]));
        for (int64_t i = 0; i < g.in_channels; ++i) {
          const auto value = static_cast<double>(static_cast<float>(x[static_cast<size_t>(from * g.in_channels + i)]));
          dw[static_cast<size_t>((o * g.in_channels + i) * g.taps() + tap)] += gradient * value;
        }
      }
    }
  }
  return dw;
}

template <class T>
void Check(const ConvGeometry& g, double tolerance) {
  const int64_t pixels = g.batch * g.out[0] * g.out[1] * g.out[2];
  const std::vector<T> x = Wave<T>(g.batch * g.in[0] * g.in[1] * g.in[2] * g.in_channels, 0.7);
  const std::vector<T> dy = Wave<T>(pixels * g.out_channels, 1.3);
  const std::vector<double> expected = Plain(g, x, dy);
  const int64_t m = g.out_channels, n = g.in_channels * g.taps();
  std::vector<T> first;
  for (const int threads : {1, 3}) {
    std::vector<T> dw(expected.size(), T(NAN));
    std::vector<float> workspace(static_cast<size_t>(TallWorkspaceBytes(m, n, pixels)) / sizeof(float), NAN);
    const ops::Patches<T> patches(g, x.data());
    MultiplyTall<T>(
        threads, {.m = m, .n = n, .k = pixels, .a = dy.data(), .made_b = &patches, .groups = g.taps(), .c = dw.data()},
        workspace.data());
    for (size_t i = 0; i < dw.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(static_cast<float>(dw[i])), expected[i], tolerance * (1 + std::fabs(expected[i])))
          << "element " << i << " of " << dw.size() << ", " << threads << " threads";
    }
    if (first.empty()) first = dw;
    ASSERT_EQ(std::memcmp(first.data(), dw.data(), dw.size() * sizeof(T)), 0) << threads << " threads";
  }
}

// More filters than columns and fewer, one part of the pixels and several, padding on either side, one to three axes.
std::vector<ConvGeometry> Geometries() {
  return {
      {.spatial = 2,
       .batch = 2,
       .in_channels = 5,
       .out_channels = 7,
       .in = {9, 8, 1},
       .out = {5, 4, 1},
       .kernel = {3, 3, 1},
       .stride = {2, 2, 1},
       .pad_begin = {1, 1, 0}},
      {.spatial = 2,
       .batch = 3,
       .in_channels = 3,
       .out_channels = 40,
       .in = {33, 30, 1},
       .out = {17, 15, 1},
       .kernel = {3, 3, 1},
       .stride = {2, 2, 1},
       .pad_begin = {1, 0, 0}},
      {.spatial = 2,
       .batch = 2,
       .in_channels = 70,
       .out_channels = 33,
       .in = {32, 32, 1},
       .out = {16, 16, 1},
       .kernel = {3, 3, 1},
       .stride = {2, 2, 1},
       .pad_begin = {1, 1, 0}},
      {.spatial = 2,  // so many sums that there is one part, and several tasks
       .batch = 1,
       .in_channels = 144,
       .out_channels = 500,
       .in = {24, 23, 1},
       .out = {12, 12, 1},
       .kernel = {3, 3, 1},
       .stride = {2, 2, 1},
       .pad_begin = {1, 1, 0}},
      {.spatial = 2,  // padding that is wider than the input
       .batch = 1,
       .in_channels = 2,
       .out_channels = 3,
       .in = {2, 1, 1},
       .out = {4, 4, 1},
       .kernel = {5, 7, 1},
       .stride = {1, 1, 1},
       .dilation = {2, 1, 1},
       .pad_begin = {5, 4, 0}},
      {.spatial = 1,
       .batch = 2,
       .in_channels = 6,
       .out_channels = 4,
       .in = {700, 1, 1},
       .out = {350, 1, 1},
       .kernel = {4, 1, 1},
       .stride = {2, 1, 1},
       .pad_begin = {1, 0, 0}},
      {.spatial = 3,
       .batch = 1,
       .in_channels = 3,
       .out_channels = 5,
       .in = {5, 6, 7},
       .out = {3, 3, 4},
       .kernel = {3, 2, 3},
       .stride = {2, 2, 2},
       .pad_begin = {1, 0, 1}},
  };
}

TEST(Patches, MultiplyToGradientsOfWeights) {
  for (const ConvGeometry& g : Geometries()) Check<float>(g, 2e-5);
}

TEST(Patches, AddInFloatAndRoundOnceInBFloat16) {
  for (const ConvGeometry& g : Geometries()) Check<BFloat16>(g, 5e-3);
}

}  // namespace
}  // namespace snug::core
