#include "ops/kernels/matmul/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/base/bfloat16.h"
#include "engine/base/random.h"

namespace snug::core {
namespace {

template <class T>
std::vector<T> Numbers(int64_t n, uint64_t stream) {
  std::vector<T> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(2 * ToUniform(Philox{1}(stream, i)[0]) - 1);
  return v;
}

// Compares with three loops in double, for every orientation, with and without bias, in sizes around every blocking
// boundary.
template <class T>
void CheckAgainstLoops(double tolerance) {
  const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},      {8, 32, 16},   {9, 33, 17},
                              {64, 128, 3}, {65, 129, 257}, {70, 31, 513}, {130, 260, 40}};
  for (const auto& [m, n, k] : sizes) {
    const std::vector<T> a = Numbers<T>(m * k, 1), b = Numbers<T>(k * n, 2), bias = Numbers<T>(n, 3);
    for (int flags = 0; flags < 8; ++flags) {
      GemmCall<T> call;
      std::vector<T> c(static_cast<size_t>(m * n));
      call.m = m, call.n = n, call.k = k;
      call.a = flags & 1 ? StridedMatrix<T>{a.data(), 1, m} : StridedMatrix<T>{a.data(), k, 1};
      call.b = flags & 2 ? StridedMatrix<T>{b.data(), 1, k} : StridedMatrix<T>{b.data(), n, 1};
      call.bias = flags & 4 ? bias.data() : nullptr;
      call.c = c.data();
      Gemm(2, call);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = flags & 4 ? static_cast<double>(bias[static_cast<size_t>(j)]) : 0.0;
          for (int64_t p = 0; p < k; ++p) {
            sum += static_cast<double>(*call.a.At(i, p).data) * static_cast<double>(*call.b.At(p, j).data);
          }
          ASSERT_NEAR(static_cast<double>(c[static_cast<size_t>(i * n + j)]), sum, tolerance * std::sqrt(k))
              << m << "x" << n << "x" << k << " flags " << flags << " at " << i << ", " << j;
        }
      }
    }
  }
}

TEST(Gemm, EqualsThreeLoopsInDouble) { CheckAgainstLoops<double>(1e-14); }
TEST(Gemm, EqualsThreeLoopsInFloat) { CheckAgainstLoops<float>(2e-6); }
TEST(Gemm, EqualsThreeLoopsInBFloat16) { CheckAgainstLoops<BFloat16>(1e-2); }

TEST(Gemm, BroadcastsAlongBatchAxes) {
  const std::vector<double> a = Numbers<double>(2 * 3 * 4, 1), b = Numbers<double>(3 * 4 * 5, 2);
  std::vector<double> c(2 * 3 * 3 * 5), single(3 * 5);
  GemmCall<double> call;
  call.m = 3, call.n = 5, call.k = 4;
  call.a = {a.data(), 4, 1};
  call.b = {b.data(), 5, 1};
  call.c = c.data();
  call.batch = {2, 3};
  call.a_batch = {12, 0};
  call.b_batch = {0, 20};
  Gemm(2, call);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      GemmCall<double> one = call;
      one.batch = {};
      one.a.data += 12 * i;
      one.b.data += 20 * j;
      one.c = single.data();
      Gemm(1, one);
      for (int64_t e = 0; e < 15; ++e) {
        EXPECT_EQ(c[static_cast<size_t>((i * 3 + j) * 15 + e)], single[static_cast<size_t>(e)]);
      }
    }
  }
}

TEST(Gemm, IsBitwiseTheSameOnAnyNumberOfThreads) {
  const int64_t m = 150, n = 300, k = 700;
  const std::vector<float> a = Numbers<float>(m * k, 1), b = Numbers<float>(k * n, 2);
  std::vector<float> one(static_cast<size_t>(m * n)), three(one.size());
  GemmCall<float> call;
  call.m = m, call.n = n, call.k = k;
  call.a = {a.data(), k, 1};
  call.b = {b.data(), n, 1};
  call.c = one.data();
  Gemm(1, call);
  call.c = three.data();
  Gemm(3, call);
  EXPECT_EQ(one, three);
}

}  // namespace
}  // namespace snug::core
