#include "ops/kernels/reduce/part_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/bfloat16.h"
#include "engine/base/random.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/parts.h"

namespace snug::core {
namespace {

struct Moments {
  std::vector<float> mean, var;
};

// [rows, columns] around `centre`, a little more spread out in each column than in the one before.
template <class T>
std::vector<T> Matrix(int64_t rows, int64_t columns, double centre) {
  std::vector<T> m(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < m.size(); ++i) {
    const double spread = 1 + static_cast<double>(static_cast<int64_t>(i) % columns) / 16;
    m[i] = static_cast<T>(centre + spread * (2 * ToUniform(Philox{3}(1, i)[0]) - 1));
  }
  return m;
}

template <class T>
void ExpectMomentsOf(const std::vector<T>& m, int64_t columns, const Moments& found, double tolerance,
                     const std::string& what) {
  const auto rows = static_cast<int64_t>(m.size()) / columns;
  for (int64_t c = 0; c < columns; ++c) {
    const auto at = [&](int64_t i) { return static_cast<double>(m[static_cast<size_t>(i * columns + c)]); };
    double mean = 0, var = 0;
    for (int64_t i = 0; i < rows; ++i) mean += at(i) / static_cast<double>(rows);
    for (int64_t i = 0; i < rows; ++i) var += (at(i) - mean) * (at(i) - mean) / static_cast<double>(rows);
    const auto column = static_cast<size_t>(c);
    ASSERT_NEAR(found.mean[column], mean, 2e-6 * (std::sqrt(var) + std::fabs(mean))) << what << ", column " << c;
    ASSERT_NEAR(found.var[column], var, tolerance * var) << what << ", column " << c;
  }
}

// Measures columns in two ranges, as threads that share a part do.
template <class T>
Moments Measure(const std::vector<T>& m, int64_t columns, int64_t part_rows, int threads) {
  const auto rows = static_cast<int64_t>(m.size()) / columns;
  const int64_t parts = Parts(rows, part_rows);
  std::vector<float> workspace(static_cast<size_t>(PartMoments::WorkspaceBytes(parts, columns)) / sizeof(float), NAN);
  Moments result = {std::vector<float>(static_cast<size_t>(columns)), std::vector<float>(static_cast<size_t>(columns))};
  const PartMoments moments(parts, columns, {result.mean.data(), result.var.data(), workspace.data()});
  EXPECT_TRUE(moments.asked());
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * part_rows, count = std::min(part_rows, rows - first);
    moments.SetRows(part, count);
    WithIsa([&](auto isa) SNUG_LAMBDA {
      const auto measure = [&](int64_t begin, int64_t end) SNUG_LAMBDA {
        const T* const from = m.data() + first * columns + begin;
        moments.Measure<isa()>(part, begin, end - begin, count,
                               [=](int64_t i) SNUG_LAMBDA { return from + i * columns; });
      };
      measure(0, columns / 2);
      measure(columns / 2, columns);
    });
  }
  moments.PutTogether(threads);
  return result;
}

TEST(PartMoments, AreThoseOfTheWholeMatrix) {
  for (const int64_t columns : {1, 7, 16, 33, 150}) {
    for (const int64_t rows : {1, 2, 45, 300}) {
      const std::string what = std::to_string(rows) + " x " + std::to_string(columns);
      const auto m = Matrix<float>(rows, columns, 0.5);
      const auto narrow = Matrix<BFloat16>(rows, columns, 0.5);
      for (const int64_t part_rows : {1, 44, 1000}) {
        ExpectMomentsOf(m, columns, Measure(m, columns, part_rows, 2), 1e-5, what);
        ExpectMomentsOf(narrow, columns, Measure(narrow, columns, part_rows, 2), 1e-5, what);
      }
    }
  }
}

TEST(PartMoments, KeepSmallVariancesFarFromZero) {
  const auto m = Matrix<float>(500, 40, 3000);  // of which floats have steps of 1/4096
  ExpectMomentsOf(m, 40, Measure(m, 40, 96, 1), 1e-4, "around 3000");
}

// Numbers are measured from those of a row, which may be like no other. A part of more rows is measured in blocks.
TEST(PartMoments, ARowLikeNoOtherCostsFewDigits) {
  for (const int64_t part_rows : {96, 4000}) {
    for (const float odd : {1000.1F, 7.7F}) {
      auto m = std::vector<float>(static_cast<size_t>(4000 * 40), 0.3F);
      std::fill_n(m.begin(), 40, odd);
      ExpectMomentsOf(m, 40, Measure(m, 40, part_rows, 1), 3e-4, std::to_string(part_rows));
    }
  }
}

TEST(PartMoments, OfAMatrixThatIsThereTakeASweep) {
  const int64_t columns = 70;
  const auto m = Matrix<float>(500, columns, 1);
  Moments found = {std::vector<float>(static_cast<size_t>(columns)), std::vector<float>(static_cast<size_t>(columns))};
  std::vector<float> workspace(static_cast<size_t>(MeasureColumnsBytes(500, columns)) / sizeof(float), NAN);
  MeasureColumns(3, 500, columns, m.data(), {found.mean.data(), found.var.data(), workspace.data()});
  ExpectMomentsOf(m, columns, found, 1e-5, "a sweep");
}

TEST(PartMoments, DoNotDependOnTheThreads) {
  const auto m = Matrix<float>(500, 90, 1);
  const Moments one = Measure(m, 90, 48, 1), four = Measure(m, 90, 48, 4);
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.var, four.var);
}

TEST(PartMoments, ANumberThatIsNoneIsNotLost) {
  auto m = Matrix<float>(100, 20, 1);
  m[50 * 20 + 3] = NAN;
  m[0 * 20 + 5] = INFINITY;
  const Moments moments = Measure(m, 20, 48, 1);
  EXPECT_TRUE(std::isnan(moments.mean[3]));
  EXPECT_TRUE(std::isnan(moments.var[3]));
  EXPECT_FALSE(std::isfinite(moments.mean[5]));
  EXPECT_FALSE(std::isfinite(moments.var[5]));
  EXPECT_TRUE(std::isfinite(moments.var[4]));
}

// Rectangles of several rows and columns, with edges, on few and on many threads.
template <class T>
void CheckPanels(double tolerance) {
  const int64_t m = 203;
  for (const int64_t n : {9, 64, 600}) {
    for (const int64_t k : {8, 300}) {
      const auto a = Matrix<T>(m, k, 0), b = Matrix<T>(k, n, 0.1);
      const PanelsShape shape = {.n = n, .k = k};
      std::vector<float> panels(static_cast<size_t>(PanelsBytes(shape)) / sizeof(float));
      PackIntoPanels(1, shape, b.data(), panels.data());
      Moments first;
      for (const int threads : {1, 2, 7}) {
        std::vector<T> c(static_cast<size_t>(m * n));
        Moments found = {std::vector<float>(static_cast<size_t>(n)), std::vector<float>(static_cast<size_t>(n))};
        std::vector<float> workspace(static_cast<size_t>(PanelsMomentsBytes<T>(m, n, k)) / sizeof(float), NAN);
        MultiplyByPanels<T>(threads, {.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = a.data(),
                                      .panels = panels.data(),
                                      .c = c.data(),
                                      .moments = {found.mean.data(), found.var.data(), workspace.data()}});
        ExpectMomentsOf(c, n, found, tolerance, std::to_string(n) + " x " + std::to_string(k));
        if (first.mean.empty()) first = found;
        EXPECT_EQ(found.mean, first.mean) << threads;
        EXPECT_EQ(found.var, first.var) << threads;
      }
    }
  }
}

TEST(PartMoments, ComeWithProductsInFloat) { CheckPanels<float>(1e-5); }
TEST(PartMoments, ComeWithProductsInBFloat16) { CheckPanels<BFloat16>(1e-5); }

}  // namespace
}  // namespace snug::core
