#include "ops/kernels/conv/winograd/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/bfloat16.h"
#include "engine/base/random.h"
#include "ops/kernels/copy/own_format.h"

namespace snug::core {
namespace {

template <class T>
std::vector<T> Uniform(int64_t n, uint64_t stream) {
  std::vector<T> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(2 * ToUniform(Philox{5}(stream, i)[0]) - 1);
  return v;
}

WinogradSizes Sizes(int64_t batch, int64_t height, int64_t width, int64_t in, int64_t out, int64_t pad_top,
                    int64_t pad_left) {
  return {.batch = batch,
          .in_height = height,
          .in_width = width,
          .in_channels = in,
          .out_height = height + 2 * pad_top - 2,
          .out_width = width + 2 * pad_left - 2,
          .out_channels = out,
          .pad_top = pad_top,
          .pad_left = pad_left};
}

WinogradSizes InSteps(int64_t batch, int64_t height, int64_t width, int64_t in, int64_t out) {
  WinogradSizes s = Sizes(batch, height, width, in, out, 1, 1);
  s.kind = WinogradKind::kInSteps;
  s.out_height = (height + 1) / 2;
  s.out_width = (width + 1) / 2;
  return s;
}

WinogradSizes FiveTaps(int64_t batch, int64_t height, int64_t width, int64_t in, int64_t out, int64_t pad_top,
                       int64_t pad_left) {
  WinogradSizes s = Sizes(batch, height, width, in, out, pad_top, pad_left);
  s.kind = WinogradKind::kFiveTaps;
  s.out_height -= 2;
  s.out_width -= 2;
  return s;
}

// Whose channels fill no block, and which has no padding.
WinogradSizes FourTaps(int64_t batch, int64_t height, int64_t width, int64_t in, int64_t out) {
  WinogradSizes s = Sizes(batch, height, width, in, out, 0, 0);
  s.kind = WinogradKind::kFourTaps;
  s.out_height = height - 3;
  s.out_width = width - 3;
  return s;
}

int64_t TapsAcross(const WinogradSizes& s) {
  return s.kind == WinogradKind::kFourTaps ? 4 : s.kind == WinogradKind::kFiveTaps ? 5 : 3;
}
int64_t Taps(const WinogradSizes& s) { return TapsAcross(s) * TapsAcross(s); }

// Data, with what may be read behind them.
template <class T>
std::vector<T> DataOf(const WinogradSizes& s) {
  auto x = Uniform<T>(s.batch * s.in_height * s.in_width * s.in_channels, 1);
  x.resize(x.size() + static_cast<size_t>(RoundedUpChannels(s.in_channels) - s.in_channels), static_cast<T>(NAN));
  return x;
}

// The gradient of the data of these.
WinogradSizes BetweenSteps(const WinogradSizes& s) {
  return {.kind = WinogradKind::kBetweenSteps,
          .batch = s.batch,
          .in_height = s.out_height,
          .in_width = s.out_width,
          .in_channels = s.out_channels,
          .out_height = s.in_height,
          .out_width = s.in_width,
          .out_channels = s.in_channels,
          .pad_top = 1,
          .pad_left = 1};
}

// Tiles that fill the image and that do not, by one, two and three results; few and many of them; few filters, which
// are held, and many, by slabs where tiles are few and else as a whole; channels that fill a block and that do not.
std::vector<WinogradSizes> AllSizes() {
  return {InSteps(1, 8, 8, 16, 16),          InSteps(2, 9, 17, 16, 48),        InSteps(1, 1, 2, 32, 16),
          InSteps(3, 13, 27, 48, 80),        InSteps(2, 14, 13, 144, 208),     InSteps(9, 30, 28, 192, 144),
          InSteps(4, 59, 60, 80, 48),        InSteps(80, 9, 10, 144, 144),     Sizes(1, 4, 4, 16, 16, 1, 1),
          Sizes(2, 5, 9, 16, 48, 1, 1),      Sizes(1, 3, 3, 32, 16, 0, 0),     Sizes(3, 13, 7, 48, 80, 1, 0),
          Sizes(1, 6, 6, 16, 32, 2, 2),      Sizes(2, 30, 31, 64, 64, 1, 1),   Sizes(1, 8, 8, 192, 208, 1, 1),
          Sizes(9, 12, 12, 144, 208, 1, 1),  Sizes(11, 24, 22, 32, 80, 1, 1),  Sizes(5, 30, 31, 80, 48, 1, 1),
          Sizes(55, 5, 6, 176, 208, 1, 1),   FiveTaps(1, 5, 6, 16, 16, 2, 2),  FiveTaps(2, 9, 13, 48, 80, 0, 4),
          FiveTaps(2, 7, 8, 144, 208, 2, 1), FiveTaps(3, 15, 12, 32, 48, 2, 2)};
}

// Of four taps, and of input channels that fill no block: few, and so many that filters are not held.
std::vector<WinogradSizes> OthersForward() {
  return {FourTaps(1, 6, 6, 4, 16),     FourTaps(2, 9, 17, 12, 64),    FourTaps(1, 4, 4, 8, 32),
          FourTaps(3, 14, 40, 12, 80),  FourTaps(5, 35, 33, 16, 48),   FourTaps(1, 10, 9, 144, 320),
          FourTaps(2, 9, 10, 148, 320), Sizes(2, 13, 9, 12, 80, 0, 0), Sizes(3, 9, 18, 27, 48, 1, 0),
          Sizes(1, 8, 8, 4, 16, 1, 1),  Sizes(2, 9, 8, 148, 320, 1, 1)};
}

// Those that are forward convolutions.
std::vector<WinogradSizes> ForwardSizes() {
  std::vector<WinogradSizes> all = AllSizes();
  for (const WinogradSizes& s : OthersForward()) all.push_back(s);
  return all;
}

// Of more tiles than are held at a time beside filters that are not held, in all its images, and of fewer in each.
WinogradSizes ManyTiles() { return Sizes(5, 28, 27, 288, 144, 1, 1); }

// Memory for T, filled with NaN: what is read must have been written, and what lies behind must be left alone.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) : floats_(static_cast<size_t>(bytes) / sizeof(float) + 16 + kBehind, NAN) {
    begin_ = floats_.data();
    size_t space = floats_.size() * sizeof(float);
    std::align(64, static_cast<size_t>(bytes), begin_, space);
    end_ = static_cast<float*>(begin_) + static_cast<size_t>(bytes) / sizeof(float);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    EXPECT_TRUE(std::all_of(end_, end_ + kBehind, [](float f) { return std::isnan(f); })) << "written beyond its end";
  }
  void* begin() const { return begin_; }

 private:
  static constexpr size_t kBehind = 4096;  // floats
  std::vector<float> floats_;
  void* begin_;
  const float* end_;
};

// Calls fn(first x index, first y index, tap) for each tap of each result that lies within the data.
template <class Fn>
void ForEachTap(const WinogradSizes& s, const Fn& fn) {
  const int64_t step = s.kind == WinogradKind::kInSteps ? 2 : 1;
  for (int64_t image = 0; image < s.batch; ++image) {
    for (int64_t row = 0; row < s.out_height; ++row) {
      for (int64_t column = 0; column < s.out_width; ++column) {
        for (int64_t tap = 0; tap < Taps(s); ++tap) {
          int64_t x_row = row * step + tap / TapsAcross(s) - s.pad_top;
          int64_t x_column = column * step + tap % TapsAcross(s) - s.pad_left;
          if (s.kind == WinogradKind::kBetweenSteps) {
            x_row = row + 1 - tap / 3, x_column = column + 1 - tap % 3;
            if (x_row % 2 != 0 || x_column % 2 != 0) continue;
            x_row /= 2, x_column /= 2;
          }
          if (x_row < 0 || x_row >= s.in_height || x_column < 0 || x_column >= s.in_width) continue;
          fn(((image * s.in_height + x_row) * s.in_width + x_column) * s.in_channels,
             ((image * s.out_height + row) * s.out_width + column) * s.out_channels, tap);
        }
      }
    }
  }
}

// What the sums are checked against takes thousands of millions of products, on one thread: neither rows far apart nor
// ThreadSanitizer shall make it slow.

// y += x w, of a row-major w.
[[gnu::no_sanitize("thread")]] void AddRowTimesMatrix(int64_t in, int64_t out, const double* x, const double* w,
                                                      double* y) {
  for (int64_t i = 0; i < in; ++i, w += out) {
    for (int64_t o = 0; o < out; ++o) y[o] += x[i] * w[o];
  }
}

// w += xᵀ y.
[[gnu::no_sanitize("thread")]] void AddOuterProduct(int64_t in, int64_t out, const double* x, const double* y,
                                                    double* w) {
  for (int64_t i = 0; i < in; ++i, w += out) {
    for (int64_t o = 0; o < out; ++o) w[o] += x[i] * y[o];
  }
}

template <class T>
std::vector<double> InDouble(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class T>
void ExpectNear(const std::vector<T>& found, const std::vector<double>& expected, double tolerance,
                const std::string& what) {
  double square = 0;
  for (const double x : expected) square += x * x;
  const double size = std::sqrt(square / static_cast<double>(expected.size()));
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(found[i]), expected[i], tolerance * size + tolerance * std::fabs(expected[i]))
        << what << ", element " << i;
  }
}

std::string Text(const WinogradSizes& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.in_height) + "x" + std::to_string(s.in_width) + " " +
         std::to_string(s.in_channels) + " to " + std::to_string(s.out_channels) +
         (s.kind == WinogradKind::kPlain      ? ""
          : s.kind == WinogradKind::kFourTaps ? " of 4 x 4 taps"
          : s.kind == WinogradKind::kFiveTaps ? " of 5 x 5 taps"
          : s.kind == WinogradKind::kInSteps  ? " in steps"
                                              : " between steps");
}

// Whether the weights are [in, out, taps, taps], as they are in the gradient of the data.
enum class Weights : uint8_t { kForward, kOfGradient };

template <class T>
void CheckConv(const WinogradSizes& s, Weights weights, double tolerance) {
  const auto x = DataOf<T>(s);
  const auto w = Uniform<T>(s.out_channels * s.in_channels * Taps(s), 2);
  const auto bias = Uniform<T>(s.out_channels, 3);
  WinogradFilters<T> filters = {w.data(), s.in_channels * Taps(s), Taps(s), false};
  if (weights == Weights::kOfGradient) {
    filters = {w.data(), Taps(s), s.out_channels * Taps(s), s.kind != WinogradKind::kBetweenSteps};
  }
  std::vector<double> matrices(w.size());  // [tap, in, out]
  for (int64_t tap = 0; tap < Taps(s); ++tap) {
    for (int64_t in = 0; in < s.in_channels; ++in) {
      for (int64_t out = 0; out < s.out_channels; ++out) {
        matrices[static_cast<size_t>((tap * s.in_channels + in) * s.out_channels + out)] =
            static_cast<double>(w[static_cast<size_t>(out * filters.out_stride + in * filters.in_stride +
                                                      (filters.reversed ? Taps(s) - 1 - tap : tap))]);
      }
    }
  }
  std::vector<double> sums;
  for (int64_t pixel = 0; pixel < s.batch * s.out_height * s.out_width; ++pixel) {
    sums.insert(sums.end(), bias.begin(), bias.end());
  }
  ForEachTap(s, [&, data = InDouble(x)](int64_t from, int64_t to, int64_t tap) {
    AddRowTimesMatrix(s.in_channels, s.out_channels, data.data() + from,
                      matrices.data() + tap * s.in_channels * s.out_channels, sums.data() + to);
  });
  std::vector<T> first;
  for (const int threads : {1, 3, 16}) {  // on 16 a block of output channels is several threads'
    std::vector<T> y(sums.size(), static_cast<T>(NAN));
    const Workspace workspace(WinogradConvWorkspaceBytes(threads, s, /*transformed=*/false));
    WinogradConv(threads, s, x.data(), filters, bias.data(), Activation::kIdentity, y.data(), workspace.begin());
    ExpectNear(y, sums, tolerance, Text(s));
    if (first.empty()) first = y;
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(static_cast<float>(y[i]), static_cast<float>(first[i])) << "bits depend on the threads: " << Text(s);
    }
  }
}

template <class T>
void CheckForward(double tolerance) {
  for (const WinogradSizes& s : ForwardSizes()) CheckConv<T>(s, Weights::kForward, tolerance);
  for (const WinogradSizes& s : AllSizes()) {
    CheckConv<T>(s.kind == WinogradKind::kInSteps ? BetweenSteps(s) : s, Weights::kOfGradient, tolerance);
  }
}

TEST(Winograd, EqualsTheSumsInFloat) { CheckForward<float>(3e-5); }
TEST(Winograd, EqualsTheSumsInBFloat16) { CheckForward<BFloat16>(8e-3); }

TEST(Winograd, TakesFiltersThatAreTransformedAlready) {
  for (const WinogradSizes& s : AllSizes()) {
    const auto x = DataOf<float>(s);
    const auto w = Uniform<float>(s.out_channels * s.in_channels * Taps(s), 2);
    const Layout layout = WinogradLayout(s.kind, s.out_channels, s.in_channels);
    const Workspace kept(layout.packed->size_bytes());
    OwnFormatOf(layout)->Pack(3, w.data(), kept.begin());
    WinogradFilters<float> filters = {w.data(), s.in_channels * Taps(s), Taps(s), false};
    std::vector<std::vector<float>> results;
    for (const bool transformed : {false, true}) {
      if (transformed) filters = {.transformed = static_cast<const float*>(kept.begin())};
      for (const int threads : {2, 9}) {
        const Workspace workspace(WinogradConvWorkspaceBytes(threads, s, transformed));
        results.emplace_back(static_cast<size_t>(s.batch * s.out_height * s.out_width * s.out_channels), NAN);
        WinogradConv<float>(threads, s, x.data(), filters, nullptr, Activation::kIdentity, results.back().data(),
                            workspace.begin());
        EXPECT_EQ(results.front(), results.back()) << Text(s) << ", " << threads << " threads";
      }
    }
  }
}

TEST(Winograd, AppliesActivationsToWhatItWrites) {
  const WinogradSizes s = Sizes(1, 6, 5, 16, 16, 1, 1);
  const auto x = Uniform<float>(s.in_height * s.in_width * s.in_channels, 1);
  const auto w = Uniform<float>(s.out_channels * s.in_channels * Taps(s), 2);
  const WinogradFilters<float> filters = {w.data(), s.in_channels * Taps(s), Taps(s), false};
  const Workspace workspace(WinogradConvWorkspaceBytes(1, s, /*transformed=*/false));
  std::vector<float> plain(static_cast<size_t>(s.out_height * s.out_width * s.out_channels)), y(plain.size());
  WinogradConv<float>(1, s, x.data(), filters, nullptr, Activation::kIdentity, plain.data(), workspace.begin());
  for (const Activation activation : {Activation::kRelu, Activation::kRelu6, Activation::kSigmoid, Activation::kTanh}) {
    WinogradConv<float>(1, s, x.data(), filters, nullptr, activation, y.data(), workspace.begin());
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], Activate(activation, plain[i]), 1e-6);
  }
}

template <class T>
void CheckMoments() {
  std::vector<WinogradSizes> all = ForwardSizes();
  all.push_back(ManyTiles());
  for (const WinogradSizes& s : all) {
    const auto x = DataOf<T>(s);
    const auto w = Uniform<T>(s.out_channels * s.in_channels * Taps(s), 2);
    const WinogradFilters<T> filters = {w.data(), s.in_channels * Taps(s), Taps(s), false};
    const auto channels = static_cast<size_t>(s.out_channels);
    const auto pixels = static_cast<size_t>(s.batch * s.out_height * s.out_width);
    std::vector<float> first_mean, first_var;
    for (const int threads : {1, 3, 16}) {
      std::vector<T> y(pixels * channels);
      std::vector<float> mean(channels), var(channels);
      const Workspace workspace(WinogradConvWorkspaceBytes(threads, s, /*transformed=*/false));
      const Workspace of_moments(WinogradMomentsBytes(s));
      WinogradConv<T>(threads, s, x.data(), filters, nullptr, Activation::kIdentity, y.data(), workspace.begin(),
                      {mean.data(), var.data(), static_cast<float*>(of_moments.begin())});
      for (size_t c = 0; c < channels; ++c) {
        double centre = 0, squares = 0;
        for (size_t i = 0; i < pixels; ++i) centre += static_cast<double>(y[i * channels + c]);
        centre /= static_cast<double>(pixels);
        for (size_t i = 0; i < pixels; ++i) squares += std::pow(static_cast<double>(y[i * channels + c]) - centre, 2);
        const double variance = squares / static_cast<double>(pixels);
        ASSERT_NEAR(mean[c], centre, 1e-6 * (1 + std::sqrt(variance))) << Text(s) << ", channel " << c;
        ASSERT_NEAR(var[c], variance, 1e-5 * variance) << Text(s) << ", channel " << c;
      }
      if (first_mean.empty()) first_mean = mean, first_var = var;
      EXPECT_EQ(mean, first_mean) << Text(s);
      EXPECT_EQ(var, first_var) << Text(s);
    }
  }
}

void CheckImagesApart(const WinogradSizes& s) {
  WinogradSizes one = s;
  one.batch = 1;
  const int64_t x_image = s.in_height * s.in_width * s.in_channels;
  const int64_t y_image = s.out_height * s.out_width * s.out_channels;
  const auto x = DataOf<float>(s);
  const auto w = Uniform<float>(s.out_channels * s.in_channels * Taps(s), 2);
  const WinogradFilters<float> filters = {w.data(), s.in_channels * Taps(s), Taps(s), false};
  std::vector<float> apart(static_cast<size_t>(s.batch * y_image)), together(apart.size());
  const Workspace of_one(WinogradConvWorkspaceBytes(1, one, /*transformed=*/false));
  for (int64_t image = 0; image < s.batch; ++image) {
    WinogradConv<float>(1, one, x.data() + image * x_image, filters, nullptr, Activation::kIdentity,
                        apart.data() + image * y_image, of_one.begin());
  }
  for (const int threads : {1, 2, 7, 8, 16}) {
    const Workspace workspace(WinogradConvWorkspaceBytes(threads, s, /*transformed=*/false));
    WinogradConv<float>(threads, s, x.data(), filters, nullptr, Activation::kIdentity, together.data(),
                        workspace.begin());
    EXPECT_EQ(together, apart) << Text(s) << ", " << threads << " threads";
  }
}

// Groups of tiles that blocks of them do not divide have edges in every block: 112 tiles in groups of 56 and blocks of
// 32, and 72 and 40, as threads have it.
TEST(Winograd, ComputesManyImagesAsEachAlone) {
  CheckImagesApart(ManyTiles());
  CheckImagesApart(Sizes(7, 14, 14, 256, 256, 1, 1));
  CheckImagesApart(Sizes(9, 13, 13, 256, 256, 1, 1));
  CheckImagesApart(InSteps(27, 9, 9, 144, 144));
  CheckImagesApart(InSteps(9, 30, 28, 192, 144));
  CheckImagesApart(FourTaps(5, 40, 37, 12, 80));
  CheckImagesApart(FiveTaps(6, 13, 14, 144, 208, 2, 2));
}

TEST(Winograd, MeasuresWhatItWrites) {
  CheckMoments<float>();
  CheckMoments<BFloat16>();
}

template <class T>
void CheckGradWeight(double tolerance) {
  for (const WinogradSizes& s : ForwardSizes()) {
    const auto x = DataOf<T>(s);
    const auto dy = Uniform<T>(s.batch * s.out_height * s.out_width * s.out_channels, 2);
    std::vector<double> matrices(static_cast<size_t>(Taps(s) * s.in_channels * s.out_channels));  // [tap, in, out]
    ForEachTap(s, [&, data = InDouble(x), gradient = InDouble(dy)](int64_t from, int64_t to, int64_t tap) {
      AddOuterProduct(s.in_channels, s.out_channels, data.data() + from, gradient.data() + to,
                      matrices.data() + tap * s.in_channels * s.out_channels);
    });
    std::vector<double> expected;
    for (int64_t filter = 0; filter < s.out_channels * s.in_channels; ++filter) {
      const int64_t out = filter / s.in_channels, in = filter % s.in_channels;
      for (int64_t tap = 0; tap < Taps(s); ++tap) {
        expected.push_back(matrices[static_cast<size_t>((tap * s.in_channels + in) * s.out_channels + out)]);
      }
    }
    std::vector<T> first;
    for (const int threads : {1, 3, 5, 16}) {
      std::vector<T> dw(expected.size(), static_cast<T>(NAN));
      const Workspace workspace(WinogradGradWeightWorkspaceBytes(threads, s));
      WinogradGradWeight(threads, s, x.data(), dy.data(), dw.data(), workspace.begin());
      ExpectNear(dw, expected, tolerance, Text(s));
      if (first.empty()) first = dw;
      for (size_t i = 0; i < dw.size(); ++i) {
        ASSERT_EQ(static_cast<float>(dw[i]), static_cast<float>(first[i])) << "bits depend on the threads: " << Text(s);
      }
    }
  }
}

TEST(Winograd, GradientOfTheFiltersInFloat) { CheckGradWeight<float>(3e-5); }
TEST(Winograd, GradientOfTheFiltersInBFloat16) { CheckGradWeight<BFloat16>(8e-3); }

// Some channels of a matrix [rows, channels].
std::vector<float> SomeChannels(const std::vector<float>& data, int64_t channels, int64_t first, int64_t count) {
  std::vector<float> some;
  for (auto row = data.begin(); row != data.end(); row += channels) {
    some.insert(some.end(), row + first, row + first + count);
  }
  return some;
}

// So many blocks of several groups of tiles that a cell cannot have all that a thread does: their sums would take more
// memory than is asked for.
TEST(Winograd, GradientsOfManyFiltersAreThoseOfFewAtATime) {
  constexpr int64_t kIn = 352, kOut = 320, kSome = 80;
  const WinogradSizes all = InSteps(17, 9, 10, kIn, kOut), some = InSteps(17, 9, 10, kSome, kSome);
  const auto gradient = [](int threads, const WinogradSizes& s, const std::vector<float>& x,
                           const std::vector<float>& dy) {
    std::vector<float> dw(static_cast<size_t>(s.out_channels * s.in_channels * Taps(s)), NAN);
    const Workspace workspace(WinogradGradWeightWorkspaceBytes(threads, s));
    WinogradGradWeight(threads, s, x.data(), dy.data(), dw.data(), workspace.begin());
    return dw;
  };
  const auto x = Uniform<float>(all.batch * all.in_height * all.in_width * kIn, 1);
  const auto dy = Uniform<float>(all.batch * all.out_height * all.out_width * kOut, 2);
  const std::vector<float> dw = gradient(1, all, x, dy);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(gradient(threads, all, x, dy), dw) << threads << " threads";
  for (int64_t in = 0; in + kSome <= kIn; in += kSome) {
    const int64_t out = kOut - kSome - in;  // to have others of these
    const auto alone = gradient(1, some, SomeChannels(x, kIn, in, kSome), SomeChannels(dy, kOut, out, kSome));
    for (int64_t channel = 0; channel < kSome; ++channel) {
      const auto row = dw.begin() + ((out + channel) * kIn + in) * Taps(all);
      EXPECT_TRUE(std::equal(row, row + kSome * Taps(all), alone.begin() + channel * kSome * Taps(some)))
          << "input channels from " << in << ", output channel " << out + channel;
    }
  }
}

}  // namespace
}  // namespace snug::core
