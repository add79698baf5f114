// Convolutions by spans and their gradients, beside sums that are written down plainly.
#include "ops/kernels/conv/spans/spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/bfloat16.h"
#include "tests/ops/wave.h"

namespace snug::core {
namespace {

using ops::ConvGeometry;
using ops::ConvPart;

struct Options {
  int64_t batch, channels, filters;
  std::array<int64_t, 2> in, kernel, stride, pad;
  int64_t dilation = 1;  // of lines
};

ConvGeometry GeometryOf(const Options& o) {
  ConvGeometry g = {.spatial = 2, .batch = o.batch, .in_channels = o.channels, .out_channels = o.filters};
  for (size_t axis = 0; axis < 2; ++axis) {
    g.in[axis] = o.in[axis];
    g.kernel[axis] = o.kernel[axis];
    g.stride[axis] = o.stride[axis];
    g.pad_begin[axis] = o.pad[axis];
    g.dilation[axis] = axis == 0 ? o.dilation : 1;
    const int64_t spread = (g.kernel[axis] - 1) * g.dilation[axis] + 1;
    g.out[axis] = (g.in[axis] + 2 * g.pad_begin[axis] - spread) / g.stride[axis] + 1;
  }
  return g;
}

// One filter and less than a vector, several vectors and a rest; one band and several; steps that leave lines out,
// within a band and between two; padding that no pixel reaches; padding that is wider than the image; single pixels.
std::vector<Options> Cases() {
  return {
      {.batch = 3, .channels = 1, .filters = 6, .in = {28, 28}, .kernel = {5, 5}, .stride = {1, 1}, .pad = {2, 2}},
      {.batch = 17, .channels = 6, .filters = 16, .in = {14, 14}, .kernel = {5, 5}, .stride = {1, 1}, .pad = {0, 0}},
      {.batch = 1, .channels = 1, .filters = 1, .in = {40, 33}, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}},
      {.batch = 2, .channels = 20, .filters = 50, .in = {12, 11}, .kernel = {5, 4}, .stride = {1, 1}, .pad = {0, 1}},
      {.batch = 2, .channels = 3, .filters = 33, .in = {31, 64}, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 0}},
      {.batch = 2, .channels = 5, .filters = 7, .in = {17, 16}, .kernel = {2, 3}, .stride = {3, 4}, .pad = {1, 2}},
      {.batch = 1,
       .channels = 2,
       .filters = 3,
       .in = {2, 1},
       .kernel = {3, 7},
       .stride = {1, 1},
       .pad = {4, 4},
       .dilation = 3},
      {.batch = 1, .channels = 4, .filters = 40, .in = {60, 120}, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}},
      {.batch = 4, .channels = 5, .filters = 7, .in = {17, 16}, .kernel = {2, 3}, .stride = {3, 4}, .pad = {1, 2}},
      {.batch = 1, .channels = 3, .filters = 5, .in = {64, 64}, .kernel = {2, 2}, .stride = {3, 3}, .pad = {0, 0}},
      {.batch = 1, .channels = 3, .filters = 5, .in = {40, 30}, .kernel = {1, 3}, .stride = {4, 1}, .pad = {0, 1}},
      {.batch = 4, .channels = 2, .filters = 1, .in = {3, 3}, .kernel = {3, 3}, .stride = {1, 1}, .pad = {0, 0}},
      {.batch = 4, .channels = 2, .filters = 17, .in = {5, 4}, .kernel = {5, 4}, .stride = {1, 1}, .pad = {0, 0}},
  };
}

// Calls fn(place in x, place in w, place in y) for each product that is in a convolution. x and y are channels-last.
template <class Fn>
void ForEachProduct(const ConvGeometry& g, const Fn& fn) {
  for (int64_t pixel = 0; pixel < g.batch * g.out[0] * g.out[1]; ++pixel) {
    for (int64_t tap = 0; tap < g.kernel[0] * g.kernel[1]; ++tap) {
      const int64_t i = pixel / g.out[1] % g.out[0] * g.stride[0] + tap / g.kernel[1] * g.dilation[0] - g.pad_begin[0];
      const int64_t j = pixel % g.out[1] * g.stride[1] + tap % g.kernel[1] - g.pad_begin[1];
      if (i < 0 || j < 0 || i >= g.in[0] || j >= g.in[1]) continue;
      const int64_t from = (pixel / (g.out[0] * g.out[1]) * g.in[0] + i) * g.in[1] + j;
      for (int64_t c = 0; c < g.in_channels; ++c) {
        for (int64_t f = 0; f < g.out_channels; ++f) {
          fn(static_cast<size_t>(from * g.in_channels + c),
             static_cast<size_t>((f * g.in_channels + c) * g.kernel[0] * g.kernel[1] + tap),
             static_cast<size_t>(pixel * g.out_channels + f));
        }
      }
    }
  }
}

template <class T>
double Wide(T value) {
  return static_cast<double>(static_cast<float>(value));
}

template <class T>
void ExpectNear(const std::vector<T>& found, const std::vector<double>& expected, double tolerance,
                const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(Wide(found[i]), expected[i], tolerance * (1 + std::fabs(expected[i]))) << what << ", element " << i;
  }
}

// Runs a part on one thread and on three, which give the same bits, and returns the result.
template <class T, class Fn>
std::vector<T> RunTwice(ConvPart part, const ConvGeometry& g, int64_t size, const Fn& run) {
  std::vector<T> first;
  for (const int threads : {1, 3}) {
    std::vector<T> result(static_cast<size_t>(size), T(NAN));
    std::vector<float> workspace(static_cast<size_t>(ops::SpansWorkspaceBytes(part, g)) / sizeof(float), NAN);
    run(threads, result.data(), workspace.data());
    if (first.empty()) first = result;
    EXPECT_EQ(std::memcmp(first.data(), result.data(), result.size() * sizeof(T)), 0) << threads << " threads";
  }
  return first;
}

template <class T, class W>
void Check(const ConvGeometry& g, double tolerance, double weights_tolerance) {
  ASSERT_EQ(ops::WhyNotSpansSizes(g), std::nullopt);
  const int64_t pixels = g.batch * g.out[0] * g.out[1], x_size = g.batch * g.in[0] * g.in[1] * g.in_channels;
  const std::vector<T> x = Wave<T>(x_size, 0.7), dy = Wave<T>(pixels * g.out_channels, 1.3);
  const std::vector<W> w = Wave<W>(g.weight_shape().num_elements(), 0.9), bias = Wave<W>(g.out_channels, 0.3);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = Wide(bias[i % bias.size()]);
  ForEachProduct(g, [&](size_t i, size_t j, size_t k) {
    y[k] += Wide(x[i]) * Wide(w[j]);
    dx[i] += Wide(dy[k]) * Wide(w[j]);
    dw[j] += Wide(dy[k]) * Wide(x[i]);
  });
  for (double& value : y) value = std::max(value, 0.0);

  ExpectNear(RunTwice<T>(ConvPart::kForward, g, static_cast<int64_t>(y.size()),
                         [&](int threads, T* to, float* workspace) {
                           ops::SpansConv(threads, g, x.data(), w.data(), bias.data(), Activation::kRelu, to,
                                          workspace);
                         }),
             y, tolerance, "y");
  ExpectNear(RunTwice<T>(ConvPart::kGradInput, g, x_size,
                         [&](int threads, T* to, float* workspace) {
                           ops::SpansGradInput(threads, g, dy.data(), w.data(), to, workspace);
                         }),
             dx, tolerance, "dx");
  ExpectNear(RunTwice<W>(ConvPart::kGradWeight, g, static_cast<int64_t>(w.size()),
                         [&](int threads, W* to, float* workspace) {
                           ops::SpansGradWeight(threads, g, x.data(), dy.data(), to, workspace);
                         }),
             dw, weights_tolerance, "dw");
}

TEST(Spans, ComputeConvolutionsAndTheirGradients) {
  for (const Options& o : Cases()) Check<float, float>(GeometryOf(o), 2e-5, 2e-5);
}

TEST(Spans, AddInFloatAndRoundOnceInBFloat16) {
  for (const Options& o : Cases()) Check<BFloat16, BFloat16>(GeometryOf(o), 5e-3, 5e-3);
}

TEST(Spans, TakeParametersUnrounded) {
  for (const Options& o : Cases()) Check<BFloat16, float>(GeometryOf(o), 5e-3, 2e-5);
}

// Vectors reach behind channels and spans. What is there must not spoil what it does not belong to.
TEST(Spans, InfinityStaysWhereItBelongs) {
  for (const Options& o : Cases()) {
    const ConvGeometry g = GeometryOf(o);
    std::vector<float> x = Wave<float>(g.batch * g.in[0] * g.in[1] * g.in_channels, 0.7);
    std::vector<float> dy = Wave<float>(g.batch * g.out[0] * g.out[1] * g.out_channels, 1.3);
    const std::vector<float> w(static_cast<size_t>(g.weight_shape().num_elements()), 1.0F);
    const float infinity = std::numeric_limits<float>::infinity();
    x[x.size() / 2] = infinity;
    dy[dy.size() / 2] = infinity;
    std::vector<bool> y_finite(dy.size(), true), dx_finite(x.size(), true), dw_finite(w.size(), true);
    ForEachProduct(g, [&](size_t i, size_t j, size_t k) {
      if (x[i] == infinity) y_finite[k] = false;
      if (dy[k] == infinity) dx_finite[i] = false;
      if (x[i] == infinity) dw_finite[j] = false;
    });
    // Padding is multiplied, too.
    const size_t filter = dy.size() / 2 % static_cast<size_t>(g.out_channels),
                 size = w.size() / static_cast<size_t>(g.out_channels);
    std::fill_n(dw_finite.begin() + static_cast<int64_t>(filter * size), size, false);
    const auto expect = [&](const std::vector<float>& found, const std::vector<bool>& finite, const char* what) {
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(std::isfinite(found[i]), finite[i]) << what << ", element " << i << " is " << found[i];
      }
    };
    expect(RunTwice<float>(ConvPart::kForward, g, static_cast<int64_t>(dy.size()),
                           [&](int threads, float* to, float* workspace) {
                             ops::SpansConv<float, float>(threads, g, x.data(), w.data(), nullptr,
                                                          Activation::kIdentity, to, workspace);
                           }),
           y_finite, "y");
    expect(RunTwice<float>(ConvPart::kGradInput, g, static_cast<int64_t>(x.size()),
                           [&](int threads, float* to, float* workspace) {
                             ops::SpansGradInput(threads, g, dy.data(), w.data(), to, workspace);
                           }),
           dx_finite, "dx");
    expect(RunTwice<float>(ConvPart::kGradWeight, g, static_cast<int64_t>(w.size()),
                           [&](int threads, float* to, float* workspace) {
                             ops::SpansGradWeight(threads, g, x.data(), dy.data(), to, workspace);
                           }),
           dw_finite, "dw");
  }
}

TEST(Spans, DeclineWhatTheyCannotHold) {
  const auto declines = [](const Options& o) { return ops::WhyNotSpansSizes(GeometryOf(o)).has_value(); };
  EXPECT_TRUE(declines(
      {.batch = 1, .channels = 3, .filters = 8, .in = {9, 9999}, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}}))
      << "lines that are too long";
  EXPECT_TRUE(declines(
      {.batch = 1, .channels = 64, .filters = 128, .in = {9, 9}, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}}))
      << "many weights";
  EXPECT_TRUE(declines(
      {.batch = 8, .channels = 3, .filters = 8, .in = {64, 64}, .kernel = {3, 3}, .stride = {1024, 1}, .pad = {0, 0}}))
      << "steps over more lines than there is room for";
  EXPECT_TRUE(declines(
      {.batch = 1, .channels = 3, .filters = 8, .in = {9, 9}, .kernel = {1, 1}, .stride = {1, 1}, .pad = {0, 0}}))
      << "a single tap";
}

}  // namespace
}  // namespace snug::core
