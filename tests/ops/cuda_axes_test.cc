#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "ops/kit/cuda/axes.h"

namespace snug::core {
namespace {

TEST(CudaDivisor, DividesAsTheProcessorDoes) {
  std::mt19937_64 random(1);             // NOLINT(cert-msc32-c, cert-msc51-cpp)
  const auto below = [&](int64_t end) {  // of any magnitude
    const auto bits = std::uniform_int_distribution<int>(0, 63)(random);
    return static_cast<int64_t>(random() >> (63 - bits) >> 1) % end;
  };
  for (const int64_t end : {int64_t{1} << 31, int64_t{1} << 32, std::numeric_limits<int64_t>::max()}) {
    for (int i = 0; i < 3000; ++i) {
      const int64_t d = i < 20 ? i + 1 : below(end - 1) + 1;
      const CudaDivisor divisor(d, end);
      EXPECT_EQ(divisor.is_short(), end <= int64_t{1} << 31);
      for (const int64_t n : {int64_t{0}, d - 1, d, below(end), below(end) / d * d, end - 1, (end - 1) / d * d - 1}) {
        if (n < 0 || n >= end) continue;
        ASSERT_EQ(divisor.Divide(n), n / d) << n << " / " << d;
      }
    }
  }
}

TEST(CudaDivisor, OfALargeNumberIsLong) { EXPECT_FALSE(CudaDivisor(int64_t{1} << 31, 5).is_short()); }

TEST(CudaAxes, WalkAsAxesDo) {
  Axes axes;
  axes.Append(3, 100);
  axes.Append(5, 0);
  axes.Append(7, 11);
  const CudaAxes walked(axes);
  for (int64_t i = 0; i < axes.count(); ++i) EXPECT_EQ(walked.Offset(i), axes.Offset(i)) << i;

  Axes large;  // more elements than 31 bits count
  large.Append(int64_t{1} << 20, 3);
  large.Append(1000, 0);
  large.Append(1 << 10, 5);
  const CudaAxes long_walk(large);
  for (const int64_t i : {int64_t{0}, int64_t{1234567}, int64_t{1} << 33, large.count() - 1}) {
    EXPECT_EQ(long_walk.Offset(i), large.Offset(i)) << i;
  }
}

TEST(CudaAxes, OfOneElementAreAtItsBeginning) { EXPECT_EQ(CudaAxes(Axes()).Offset(0), 0); }

}  // namespace
}  // namespace snug::core
