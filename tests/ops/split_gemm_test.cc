// Products of float32 matrices that are put together from products of bfloat16 pieces: as exact as chains of
// multiply-adds, with the same bits on any number of threads, and no more than the planned workspace is written.
#include "ops/kernels/matmul/split_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "ops/kernels/matmul/blocked.h"

namespace snug::core {
namespace {

struct Size {
  int64_t m, n, k;
};

// Whole tiles, what is left of them in each direction, several blocks of rows and several pieces along k.
constexpr Size kSizes[] = {{64, 64, 64}, {65, 97, 100}, {33, 31, 513}, {1, 1, 1}, {400, 70, 65}, {70, 300, 1030}};

struct Operands {
  // Numbers of many sizes, so that what small pieces add is seen.
  Operands(const Size& size, bool transpose_a, bool transpose_b)
      : a(static_cast<size_t>(size.m * size.k)), b(static_cast<size_t>(size.k * size.n)) {
    std::mt19937 random(static_cast<uint32_t>(size.m + size.n + size.k));
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-12, 12);
    for (std::vector<float>* numbers : {&a, &b}) {
      for (float& x : *numbers) x = std::ldexp(normal(random), exponent(random));
    }
    call = {.m = size.m,
            .n = size.n,
            .k = size.k,
            .a = {a.data(), transpose_a ? 1 : size.k, transpose_a ? size.m : 1},
            .b = {b.data(), transpose_b ? 1 : size.n, transpose_b ? size.k : 1}};
  }

  float A(int64_t i, int64_t p) const { return call.a.data[i * call.a.row + p * call.a.col]; }
  float B(int64_t p, int64_t j) const { return call.b.data[p * call.b.row + j * call.b.col]; }

  std::vector<float> a, b;
  GemmCall<float> call;
};

using Multiply = void (*)(int, const GemmCall<float>&, Activation, void*);
using WorkspaceBytes = int64_t (*)(int, int64_t, int64_t, int64_t);

std::vector<float> Product(Multiply multiply, WorkspaceBytes bytes, int threads, GemmCall<float> call,
                           Activation activation = Activation::kIdentity) {
  constexpr size_t kBeyond = 64;
  constexpr float kUntouched = 12345;
  std::vector<float> c(static_cast<size_t>(call.m * call.n) + kBeyond, kUntouched);
  const auto needed = static_cast<size_t>(bytes(threads, call.m, call.n, call.k)) / sizeof(float);
  std::vector<float> workspace(needed + kBeyond, kUntouched);
  call.c = c.data();
  multiply(threads, call, activation, workspace.data());
  for (size_t i = 0; i < kBeyond; ++i) {
    EXPECT_EQ(c[c.size() - 1 - i], kUntouched);
    EXPECT_EQ(workspace[needed + i], kUntouched);
  }
  c.resize(c.size() - kBeyond);
  return c;
}

std::vector<float> Split(int threads, const GemmCall<float>& call, Activation activation = Activation::kIdentity) {
  return Product(SplitGemm, SplitGemmWorkspaceBytes, threads, call, activation);
}

// The root of the mean square of the errors, each in parts of what is added up.
double ErrorOf(const Operands& operands, const std::vector<float>& c) {
  const GemmCall<float>& call = operands.call;
  double squares = 0;
  for (int64_t i = 0; i < call.m; ++i) {
    for (int64_t j = 0; j < call.n; ++j) {
      double sum = 0, magnitude = std::numeric_limits<double>::min();
      for (int64_t p = 0; p < call.k; ++p) {
        const double product = static_cast<double>(operands.A(i, p)) * static_cast<double>(operands.B(p, j));
        sum += product;
        magnitude += std::abs(product);
      }
      const double error = (static_cast<double>(c[static_cast<size_t>(i * call.n + j)]) - sum) / magnitude;
      squares += error * error;
    }
  }
  return std::sqrt(squares / static_cast<double>(call.m * call.n));
}

class SplitProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!MachineSplitsProducts()) GTEST_SKIP() << "this processor has no AMX for bfloat16, or SNUG_ISA is set";
  }
};

TEST_F(SplitProducts, AreAsExactAsMultiplyAdds) {
  for (const Size& size : kSizes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const Operands operands(size, transpose_a, transpose_b);
        const double own = ErrorOf(
            operands, Product(BlockedGemm<float, float, float>, BlockedGemmWorkspaceBytes<float>, 1, operands.call));
        const double split = ErrorOf(operands, Split(1, operands.call));
        // Of a single product there is one rounding in the one way, and there are several in the other.
        constexpr double kLastBit = 1.0 / (1 << 24);
        EXPECT_LE(split, 1.1 * own + kLastBit / 2)
            << size.m << " x " << size.n << " of " << size.k << ", transposed " << transpose_a << transpose_b;
        EXPECT_LE(split, 2 * kLastBit);
      }
    }
  }
}

TEST_F(SplitProducts, HaveTheSameBitsOnAnyNumberOfThreads) {
  for (const Size& size : kSizes) {
    const Operands operands(size, /*transpose_a=*/false, /*transpose_b=*/true);
    const std::vector<float> one = Split(1, operands.call);
    for (const int threads : {2, 3, 4, 8}) EXPECT_EQ(Split(threads, operands.call), one) << threads;
  }
}

// Rows of a product by themselves: gradients of weights are made in blocks.
TEST_F(SplitProducts, HaveTheSameBitsInBlocksOfRows) {
  const Operands operands({200, 130, 700}, /*transpose_a=*/true, /*transpose_b=*/false);
  const std::vector<float> whole = Split(2, operands.call);
  for (const int64_t first : {0, 64, 150}) {
    GemmCall<float> rows = operands.call;
    rows.m = std::min<int64_t>(70, operands.call.m - first);
    rows.a = operands.call.a.At(first, 0);
    const std::vector<float> block = Split(2, rows);
    EXPECT_TRUE(std::equal(block.begin(), block.end(), whole.begin() + first * rows.n)) << first;
  }
}

TEST_F(SplitProducts, AddABiasAndApplyAnActivation) {
  Operands operands({100, 90, 600}, /*transpose_a=*/false, /*transpose_b=*/false);
  const std::vector<float> sums = Split(2, operands.call);
  const std::vector<float> bias(90, 3.0F);
  operands.call.bias = bias.data();
  const std::vector<float> found = Split(2, operands.call, Activation::kRelu);
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(found[i], std::max(0.0F, sums[i] + 3.0F)) << i;
}

TEST_F(SplitProducts, MultiplyBySlopes) {
  Operands operands({100, 90, 600}, /*transpose_a=*/false, /*transpose_b=*/false);
  const std::vector<float> sums = Split(2, operands.call);
  std::vector<float> relu(sums.size());
  for (size_t i = 0; i < relu.size(); ++i) relu[i] = i % 3 == 0 ? 0.0F : 2.0F;
  operands.call.slope = SlopeOf::kRelu;
  operands.call.slope_at = relu.data();
  const std::vector<float> found = Split(2, operands.call);
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(found[i], i % 3 == 0 ? 0.0F : sums[i]) << i;
}

// What an option says of the ends of float32's range.
TEST_F(SplitProducts, AreNotFiniteWhereANumberIsNotAndRoughBelowTheRange) {
  Operands operands({64, 64, 64}, /*transpose_a=*/false, /*transpose_b=*/false);
  operands.a[5] = std::numeric_limits<float>::infinity();
  const std::vector<float> found = Split(1, operands.call);
  EXPECT_TRUE(std::all_of(found.begin(), found.begin() + 64, [](float x) { return !std::isfinite(x); }));
  EXPECT_TRUE(std::all_of(found.begin() + 64, found.end(), [](float x) { return std::isfinite(x); }));

  operands.a[5] = 3.4e38F;  // which bfloat16 rounds to infinity
  EXPECT_FALSE(std::isfinite(Split(1, operands.call)[0]));

  Operands small({64, 64, 64}, /*transpose_a=*/false, /*transpose_b=*/false);
  for (float& x : small.a) x *= 1e-33F;
  EXPECT_LE(ErrorOf(small, Split(1, small.call)), 1.0 / 256);

  // Numbers that are exact, whose products are not.
  Operands products({64, 64, 64}, /*transpose_a=*/false, /*transpose_b=*/false);
  for (std::vector<float>* numbers : {&products.a, &products.b}) {
    int exponent = 0;
    for (float& x : *numbers) x = 1e-17F * std::frexp(x, &exponent);
  }
  const double error = ErrorOf(products, Split(1, products.call));
  EXPECT_GE(error, 1.0 / (1 << 22));
  EXPECT_LE(error, 1.0 / 256);
}

}  // namespace
}  // namespace snug::core
