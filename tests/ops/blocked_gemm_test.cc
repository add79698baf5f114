// Our own fast products beside the plain one: blocked, by panels, and of tall matrices.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/bfloat16.h"
#include "engine/base/random.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/short_gemm.h"
#include "ops/kernels/matmul/tall.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"

namespace snug::core {
namespace {

template <class T>
std::vector<T> Drawn(int64_t n, uint64_t stream) {
  std::vector<T> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(2 * ToUniform(Philox{1}(stream, i)[0]) - 1);
  return v;
}

// A product in any orientation, with the numbers that it works on.
template <class T>
struct Product {
  Product(int64_t m, int64_t n, int64_t k, int flags)
      : a(Drawn<T>(m * k, 1)), b(Drawn<T>(k * n, 2)), bias(Drawn<T>(n, 3)), c(static_cast<size_t>(m * n)) {
    call = {.m = m,
            .n = n,
            .k = k,
            .a = flags & 1 ? StridedMatrix<T>{a.data(), 1, m} : StridedMatrix<T>{a.data(), k, 1},
            .b = flags & 2 ? StridedMatrix<T>{b.data(), 1, k} : StridedMatrix<T>{b.data(), n, 1},
            .c = c.data(),
            .bias = flags & 4 ? bias.data() : nullptr};
  }

  std::vector<T> Plain(Activation activation) {
    Gemm(1, call);
    for (T& x : c) x = static_cast<T>(Activate(activation, static_cast<float>(x)));
    return c;
  }

  // The workspace and c are filled with NaN first: what is read must have been written.
  std::vector<T> Blocked(int threads, Activation activation) {
    const size_t floats =
        static_cast<size_t>(BlockedGemmWorkspaceBytes<T>(threads, call.m, call.n, call.k)) / sizeof(float);
    std::vector<float> workspace(floats + 16, NAN);
    void* begin = workspace.data();
    size_t space = workspace.size() * sizeof(float);
    std::align(64, floats * sizeof(float), begin, space);
    std::fill(c.begin(), c.end(), T(NAN));
    BlockedGemm(threads, call, activation, begin);
    return c;
  }

  // With b in panels. What is added, if anything is, lies elsewhere, or where the result goes.
  // `rows` are in place of a's.
  std::vector<T> ByPanels(int threads, Activation activation, bool transposed, const std::vector<T>& addend = {},
                          bool in_place = false, const ScatteredRows<T>* rows = nullptr, int64_t parts = 1) {
    const Layout layout = PanelsLayout({.n = call.n, .k = call.k, .transposed = transposed, .parts = parts});
    std::vector<float> panels(static_cast<size_t>(layout.packed->size_bytes()) / sizeof(float), NAN);
    OwnFormatOf(layout)->Pack(threads, b.data(), panels.data());
    std::fill(c.begin(), c.end(), T(NAN));
    if (in_place) c = addend;
    MultiplyByPanels<T>(threads, {.m = call.m,
                                  .n = call.n,
                                  .k = call.k,
                                  .a = rows == nullptr ? a.data() : nullptr,
                                  .scattered_a = rows,
                                  .parts = parts,
                                  .panels = panels.data(),
                                  .addend = addend.empty() ? nullptr
                                            : in_place     ? c.data()
                                                           : addend.data(),
                                  .bias = call.bias,
                                  .activation = activation,
                                  .c = c.data()});
    return c;
  }

  // With a transposed, and no bias. The workspace is filled with NaN, as above.
  std::vector<T> Tall(int threads) {
    std::vector<float> workspace(static_cast<size_t>(TallWorkspaceBytes(call.m, call.n, call.k)) / sizeof(float), NAN);
    std::fill(c.begin(), c.end(), T(NAN));
    MultiplyTall<T>(threads, {.m = call.m, .n = call.n, .k = call.k, .a = a.data(), .b = b.data(), .c = c.data()},
                    workspace.data());
    return c;
  }

  GemmCall<T> call;
  std::vector<T> a, b, bias, c;
};

// Sizes around every boundary: of tiles, panels, pieces along k, rectangles and blocks.
constexpr int64_t kSizes[][3] = {{1, 1, 1},
                                 {3, 5, 7},
                                 {8, 32, 16},
                                 {9, 33, 17},
                                 {23, 17, 256},
                                 {25, 65, 257},
                                 {97, 257, 40},
                                 {50, 56, 40},
                                 {17, 24, 144},
                                 {64, 300, 600},
                                 {1153, 70, 30},
                                 {30, 1025, 520},
                                 // The rest are done in wide blocks (wide_blocks.h) where the machine can.
                                 {140, 520, 470},
                                 {97, 1040, 340},
                                 {1003, 515, 67},
                                 {530, 256, 300},
                                 {49, 700, 1000},
                                 {1110, 260, 130},
                                 {13, 2600, 1000}};

// What a sweep of its own makes of the plain product.
std::vector<float> PlainBySlopes(Product<float>& product, SlopeOf of, const std::vector<float>& at) {
  std::vector<float> c = product.Plain(Activation::kIdentity);
  const auto sweep = [&](auto gradient) {
    Map(1, static_cast<int64_t>(c.size()), gradient, c.data(), at.data(), static_cast<const float*>(c.data()));
  };
  if (of == SlopeOf::kRelu) sweep(functions::ReluGrad());
  if (of == SlopeOf::kGelu) sweep(functions::GeluGrad());
  if (of == SlopeOf::kGeluByTanh) sweep(functions::GeluByTanhGrad());
  return c;
}

// A compiler that is asked for less may make multiply-adds in one loop and none in the other, so gelu's slope may have
// another last bit there than in a sweep of its own; but it has the same one on any number of threads. A slope near 0
// is a difference of larger numbers, so what is allowed goes by the product.
TEST(BlockedGemm, MultipliesBySlopes) {
  for (const auto& [m, n, k] : kSizes) {
    std::vector<float> at = Drawn<float>(m * n, 4);
    for (float& x : at) x *= 5;
    at[0] = 0;
    for (const int flags : {0, 1, 2, 3, 4}) {
      for (const SlopeOf of : {SlopeOf::kRelu, SlopeOf::kGelu, SlopeOf::kGeluByTanh}) {
        Product<float> product(m, n, k, flags);
        const std::vector<float> expected = PlainBySlopes(product, of, at);
        const std::vector<float> sums = product.Plain(Activation::kIdentity);
        product.call.slope = of;
        product.call.slope_at = at.data();
        const std::vector<float> one = product.Blocked(1, Activation::kIdentity);
        const std::string what = absl::StrCat(m, "x", n, "x", k, " flags ", flags, ", slope of ", static_cast<int>(of));
        for (size_t i = 0; i < one.size(); ++i) {
          const float allowed = of == SlopeOf::kRelu ? 0 : 1e-6F * std::abs(sums[i]) + 1e-6F;
          ASSERT_NEAR(one[i], expected[i], allowed) << what;
        }
        ASSERT_EQ(product.Blocked(3, Activation::kIdentity), one) << what;
      }
    }
  }
}

TEST(BlockedGemm, HasThePlainProductsBitsInFloat) {
  for (const auto& [m, n, k] : kSizes) {
    for (int flags = 0; flags < 8; ++flags) {
      Product<float> product(m, n, k, flags);
      const std::vector<float> expected = product.Plain(Activation::kIdentity);
      for (const int threads : {1, 3}) {
        const std::vector<float> found = product.Blocked(threads, Activation::kIdentity);
        // The plain product adds the bias in the same way, so nothing may differ.
        ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
            << m << "x" << n << "x" << k << " flags " << flags << ", " << threads << " threads";
      }
    }
  }
}

TEST(Panels, HaveThePlainProductsBits) {
  for (const auto& [m, n, k] : kSizes) {
    for (const int flags : {0, 2, 4, 6}) {
      Product<float> product(m, n, k, flags);
      const std::vector<float> expected = product.Plain(Activation::kIdentity);
      for (const int threads : {1, 3}) {
        const std::vector<float> found = product.ByPanels(threads, Activation::kIdentity, (flags & 2) != 0);
        ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
            << m << "x" << n << "x" << k << " flags " << flags << ", " << threads << " threads";
      }
    }
  }
}

// Parts of the rows of a matrix, the last ones first in memory and with others between them.
template <class T>
class RowsFromTheEnd final : public ScatteredRows<T> {
 public:
  RowsFromTheEnd(const std::vector<T>& matrix, int64_t m, int64_t k, int64_t parts)
      : m_(m), columns_(k / parts), parts_(parts), memory_(static_cast<size_t>(2 * m * k), T(NAN)) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t part = 0; part < parts; ++part) {
        std::copy_n(matrix.data() + i * k + part * columns_, columns_, memory_.data() + Place(part, i));
      }
    }
  }
  void Find(int64_t part, int64_t first, absl::Span<const T*> rows) const override {
    for (const T*& row : rows) row = memory_.data() + Place(part, first++);
  }

 private:
  int64_t Place(int64_t part, int64_t i) const { return 2 * ((m_ - 1 - i) * parts_ + parts_ - 1 - part) * columns_; }
  int64_t m_, columns_, parts_;
  std::vector<T> memory_;
};

// B has the weights of one tap after the other, of which the value that is packed has those of a channel side by side.
template <class T>
void CheckScatteredRows(int64_t taps) {
  for (const auto& [m, n, channels] : kSizes) {
    const int64_t k = taps * channels;
    Product<T> product(m, n, k, /*flags=*/0);
    const std::vector<T> expected = product.ByPanels(1, Activation::kRelu, /*transposed=*/false);
    const std::vector<T> by_rows = product.b;
    for (int64_t column = 0; column < n; ++column) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          product.b[static_cast<size_t>((column * channels + channel) * taps + tap)] =
              by_rows[static_cast<size_t>((tap * channels + channel) * n + column)];
        }
      }
    }
    const RowsFromTheEnd<T> rows(product.a, m, k, taps);
    for (const int threads : {1, 3, 40}) {
      const std::vector<T> found = product.ByPanels(threads, Activation::kRelu, /*transposed=*/true, /*addend=*/{},
                                                    /*in_place=*/false, &rows, taps);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)), 0) << m << "x" << n << "x" << k;
    }
  }
}

TEST(Panels, TakeRowsFromWhereTheyAre) {
  for (const int64_t taps : {1, 3}) {
    CheckScatteredRows<float>(taps);
    CheckScatteredRows<BFloat16>(taps);
  }
}

TEST(Panels, ApplyActivationsAndAddNothingToTheBias) {
  for (const Activation activation : {Activation::kRelu, Activation::kRelu6, Activation::kSigmoid, Activation::kTanh}) {
    Product<float> product(37, 45, 300, /*flags=*/6);
    const std::vector<float> expected = product.Plain(activation);
    const std::vector<float> found = product.ByPanels(2, activation, /*transposed=*/true);
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6F * 17);
  }
  constexpr int64_t kFew = 3, kOfSeveralTasks = 203;
  for (const int64_t m : {kFew, kOfSeveralTasks}) {
    Product<float> nothing(m, 40, 0, /*flags=*/4);
    const std::vector<float> found = nothing.ByPanels(1, Activation::kIdentity, /*transposed=*/false);
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], nothing.bias[i % 40]);
    Product<BFloat16> rounded(m, 40, 0, /*flags=*/4);
    const std::vector<BFloat16> as_found = rounded.ByPanels(1, Activation::kIdentity, /*transposed=*/false);
    for (size_t i = 0; i < as_found.size(); ++i) {
      ASSERT_EQ(static_cast<float>(as_found[i]), static_cast<float>(rounded.bias[i % 40]));
    }
  }
}

template <class T>
void ExpectClose(const std::vector<T>& found, const std::vector<T>& expected, float tolerance, const char* what) {
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(static_cast<float>(found[i]), static_cast<float>(expected[i]),
                tolerance * (1 + std::fabs(static_cast<float>(expected[i]))))
        << what << ", element " << i;
  }
}

// Sums that begin at 0 and those that begin at the addend are rounded elsewhere. Where the addend lies, and how many
// threads there are, makes no difference.
template <class T>
void CheckAddend(int64_t m, int64_t n, int64_t k, float tolerance) {
  const std::vector<T> addend = Drawn<T>(m * n, 5);
  for (const Activation activation : {Activation::kIdentity, Activation::kRelu6, Activation::kTanh}) {
    Product<T> product(m, n, k, /*flags=*/4);
    std::vector<T> expected = product.Plain(Activation::kIdentity);
    for (size_t i = 0; i < expected.size(); ++i) {
      const float sum = static_cast<float>(expected[i]) + static_cast<float>(addend[i]);
      expected[i] = static_cast<T>(Activate(activation, sum));
    }
    const std::vector<T> found = product.ByPanels(1, activation, /*transposed=*/false, addend);
    ExpectClose(found, expected, tolerance, "addend");
    const std::vector<T> in_place = product.ByPanels(3, activation, /*transposed=*/false, addend, /*in_place=*/true);
    ASSERT_EQ(std::memcmp(found.data(), in_place.data(), found.size() * sizeof(T)), 0) << m << "x" << n << "x" << k;
  }
}

template <class T>
void CheckAddends(float tolerance) {
  for (const auto& [m, n, k] : kSizes) CheckAddend<T>(m, n, k, tolerance);
  CheckAddend<T>(5, 33, /*k=*/0, tolerance);
}

TEST(Panels, BeginAtWhatTheyAdd) { CheckAddends<float>(1e-5F); }
TEST(Panels, BeginAtWhatTheyAddInBFloat16) { CheckAddends<BFloat16>(1e-2F); }

TEST(Panels, AddInFloatAndRoundOnceInBFloat16) {
  for (const auto& [m, n, k] : kSizes) {
    for (const int flags : {0, 2, 4, 6}) {
      for (const Activation activation : {Activation::kIdentity, Activation::kRelu6, Activation::kTanh}) {
        Product<BFloat16> product(m, n, k, flags);
        const std::vector<BFloat16> expected = product.Plain(activation);
        const std::vector<BFloat16> found = product.ByPanels(1, activation, (flags & 2) != 0);
        ExpectClose(found, expected, 1e-2F, "panels");
        const std::vector<BFloat16> by_three = product.ByPanels(3, activation, (flags & 2) != 0);
        ASSERT_EQ(std::memcmp(found.data(), by_three.data(), found.size() * sizeof(BFloat16)), 0);
      }
    }
  }
}

// Few rows of the factors and many, one part and several, one task of a part and several, of either orientation.
constexpr int64_t kTallSizes[][3] = {
    {1, 1, 1},       {8, 32, 125},   {9, 33, 126},    {16, 96, 2000}, {96, 16, 2000},   {24, 24, 5000},
    {200, 70, 600},  {70, 600, 513}, {600, 70, 513},  {5, 3, 40000},  {320, 1800, 300}, {1800, 320, 300},
    {144, 24, 3000}, {33, 48, 1000}, {200, 384, 600}, {384, 7, 263},  {64, 256, 262}};

template <class T>
void CheckTall(float tolerance) {
  for (const auto& [m, n, k] : kTallSizes) {
    Product<T> product(m, n, k, /*flags=*/1);
    const std::vector<T> expected = product.Plain(Activation::kIdentity);
    const std::vector<T> found = product.Tall(1);
    ExpectClose(found, expected, tolerance * std::sqrt(static_cast<float>(k)), "tall");
    const std::vector<T> by_three = product.Tall(3);
    ASSERT_EQ(std::memcmp(found.data(), by_three.data(), found.size() * sizeof(T)), 0) << m << "x" << n << "x" << k;
  }
}

TEST(Tall, IsTheProduct) { CheckTall<float>(1e-6F); }
TEST(Tall, AddsInFloatAndRoundsOnceInBFloat16) { CheckTall<BFloat16>(5e-3F); }

TEST(Tall, IsForManyRowsAndFewColumns) {
  EXPECT_TRUE(IsTall(16, 96, 200704));
  EXPECT_FALSE(IsTall(16, 96, 100));
  EXPECT_FALSE(IsTall(1024, 1024, 200704));
}

TEST(Panels, ANotANumberStaysOne) {
  Product<float> product(5, 33, 20, /*flags=*/4);
  product.a[0] = NAN;
  const std::vector<float> found = product.ByPanels(1, Activation::kRelu6, /*transposed=*/false);
  for (size_t j = 0; j < 33; ++j) ASSERT_TRUE(std::isnan(found[j]));
  for (size_t j = 33; j < found.size(); ++j) ASSERT_FALSE(std::isnan(found[j]));
}

TEST(BlockedGemm, AddsInFloatAndRoundsOnceInBFloat16) {
  for (const auto& [m, n, k] : kSizes) {
    for (int flags = 0; flags < 8; ++flags) {
      Product<BFloat16> product(m, n, k, flags);
      const std::vector<BFloat16> expected = product.Plain(Activation::kIdentity);
      const std::vector<BFloat16> found = product.Blocked(2, Activation::kIdentity);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(static_cast<float>(found[i]), static_cast<float>(expected[i]),
                    1e-2F * (1 + std::fabs(static_cast<float>(expected[i]))))
            << m << "x" << n << "x" << k << " flags " << flags;
      }
    }
  }
}

// a, b and c have types of their own: what is float already is read, or left, as it is.
template <class A, class B, class C>
std::vector<C> BlockedOfTypes(const Product<float>& product, int threads, Activation activation) {
  const std::vector<A> a(product.a.begin(), product.a.end());
  const std::vector<B> b(product.b.begin(), product.b.end()), bias(product.bias.begin(), product.bias.end());
  std::vector<C> c(product.c.size(), C(NAN));
  const GemmCall<float>& p = product.call;
  const GemmCall<A, B, C> call = {.m = p.m,
                                  .n = p.n,
                                  .k = p.k,
                                  .a = {a.data(), p.a.row, p.a.col},
                                  .b = {b.data(), p.b.row, p.b.col},
                                  .c = c.data(),
                                  .bias = p.bias == nullptr ? nullptr : bias.data()};
  std::vector<float> workspace(
      static_cast<size_t>(BlockedGemmWorkspaceBytes<C>(threads, p.m, p.n, p.k)) / sizeof(float) + 16, NAN);
  void* begin = workspace.data();
  size_t space = workspace.size() * sizeof(float);
  std::align(64, space - 64, begin, space);
  BlockedGemm(threads, call, activation, begin);
  return c;
}

template <class T>
void RoundTo(std::vector<float>& numbers) {
  for (float& x : numbers) x = static_cast<float>(static_cast<T>(x));
}

TEST(BlockedGemm, TakesFactorsAndResultsOfSeveralTypes) {
  for (const auto& [m, n, k] : kSizes) {
    for (int flags = 0; flags < 8; ++flags) {
      Product<float> product(m, n, k, flags);
      RoundTo<BFloat16>(product.a);
      const std::vector<float> sums = product.Plain(Activation::kRelu);
      const std::vector<BFloat16> rounded = BlockedOfTypes<BFloat16, float, BFloat16>(product, 2, Activation::kRelu);
      for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(rounded[i].bits, BFloat16(sums[i]).bits) << i;
      RoundTo<BFloat16>(product.b);
      RoundTo<BFloat16>(product.bias);
      const std::vector<float> expected = product.Plain(Activation::kRelu);
      const std::vector<float> found = BlockedOfTypes<BFloat16, BFloat16, float>(product, 2, Activation::kRelu);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
          << m << "x" << n << "x" << k << " flags " << flags;
    }
  }
}

// Weights that are read where they are: sizes around tiles, blocks of rows and pieces along k.
TEST(ShortGemm, HasTheSumsOfThePlainProductRounded) {
  constexpr int64_t kShortSizes[][3] = {{16, 1, 1},     {17, 5, 7},     {64, 10, 84},   {31, 24, 256},
                                        {33, 100, 257}, {64, 256, 784}, {100, 241, 40}, {128, 490, 300}};
  for (const auto& [m, n, k] : kShortSizes) {
    for (const int flags : {2, 6}) {
      for (const Activation activation : {Activation::kIdentity, Activation::kRelu}) {
        Product<float> product(m, n, k, flags);
        RoundTo<BFloat16>(product.a);
        const std::vector<float> expected = product.Plain(activation);
        const std::vector<BFloat16> x(product.a.begin(), product.a.end());
        for (const int threads : {1, 3}) {
          std::vector<BFloat16> y(product.c.size(), BFloat16(NAN));
          const GemmCall<BFloat16, float, BFloat16> call = {.m = m,
                                                            .n = n,
                                                            .k = k,
                                                            .a = {x.data(), k, 1},
                                                            .b = product.call.b,
                                                            .c = y.data(),
                                                            .bias = product.call.bias};
          std::vector<float> workspace(static_cast<size_t>(ShortGemmWorkspaceBytes(threads, m, k)) / sizeof(float) + 16,
                                       NAN);
          void* begin = workspace.data();
          size_t space = workspace.size() * sizeof(float);
          std::align(64, space - 64, begin, space);
          ShortGemm(threads, call, activation, begin);
          for (size_t i = 0; i < y.size(); ++i) {
            ASSERT_EQ(y[i].bits, BFloat16(expected[i]).bits)
                << m << "x" << n << "x" << k << " flags " << flags << ", " << threads << " threads, element " << i;
          }
        }
      }
    }
  }
}

TEST(BlockedGemm, AppliesActivationsInTheSameSweep) {
  for (const Activation activation : {Activation::kRelu, Activation::kRelu6, Activation::kSigmoid, Activation::kTanh}) {
    Product<float> product(37, 45, 300, /*flags=*/4);
    const std::vector<float> expected = product.Plain(activation);
    const std::vector<float> found = product.Blocked(2, activation);
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6F * 17);
  }
}

TEST(BlockedGemm, NothingToAddIsTheBias) {
  Product<float> product(3, 40, 0, /*flags=*/4);
  const std::vector<float> found = product.Blocked(1, Activation::kIdentity);
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], product.bias[i % 40]);
}

}  // namespace
}  // namespace snug::core
