// The blocks of a gradient that each thread makes by itself: every row once, with the bits of one product.
#include "ops/kernels/update/private_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <random>
#include <tuple>
#include <vector>

#include "engine/base/status.h"
#include "ops/kernels/matmul/gemm.h"

namespace snug::core {
namespace {

struct PrivateSizes {
  int64_t units, width, rows;
};
// Around the boundaries of blocks of rows, panels, vectors and pieces along k; the last has blocks of the least rows.
constexpr PrivateSizes kPrivateSizes[] = {{1, 1, 1},     {5, 7, 3},      {96, 32, 16},    {97, 33, 17},  {24, 50, 257},
                                          {300, 16, 40}, {251, 784, 64}, {70, 1030, 300}, {49, 9000, 20}};

std::vector<float> RandomFloats(int64_t count, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) x = uniform(random);
  return values;
}

// Where numbers are small, their products are zeros with a sign.
class PrivateBlocksTest : public testing::TestWithParam<std::tuple<PrivateSizes, float>> {};

TEST_P(PrivateBlocksTest, GiveEachRowOnceWithTheBitsOfOneProduct) {
  const PrivateSizes sizes = std::get<0>(GetParam());
  const int64_t units = sizes.units, width = sizes.width, rows = sizes.rows;
  const float scale = std::get<1>(GetParam());
  const std::vector<float> x = RandomFloats(rows * width, 1, scale), dy = RandomFloats(rows * units, 2, scale);
  const std::vector<float> read(static_cast<size_t>(units * width));
  std::vector<float> whole(static_cast<size_t>(units * width));
  Gemm<float>(
      1, {.m = units, .n = width, .k = rows, .a = {dy.data(), 1, units}, .b = {x.data(), width, 1}, .c = whole.data()});
  for (int arrays = 0; arrays <= 3; ++arrays) {
    const std::vector<const float*> pointers(static_cast<size_t>(arrays), read.data());
    for (int threads = 1; threads <= 3; ++threads) {
      const PrivateBlocks blocks(threads, units, width, rows, arrays);
      // What is read of the workspace must have been written.
      std::vector<float> workspace(static_cast<size_t>(blocks.workspace_bytes()) / sizeof(float), NAN);
      std::vector<float> made(static_cast<size_t>(units * width), NAN);
      std::vector<int> times(static_cast<size_t>(units));
      const absl::Status status = blocks.ForEach(x.data(), dy.data(), pointers, workspace.data(),
                                                 [&](int64_t first, int64_t count, float* gradient) {
                                                   std::copy_n(gradient, count * width, made.data() + first * width);
                                                   for (int64_t i = 0; i < count; ++i) {
                                                     ++times[static_cast<size_t>(first + i)];
                                                   }
                                                   return absl::OkStatus();
                                                 });
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(times, testing::Each(1)) << threads;
      EXPECT_EQ(std::memcmp(made.data(), whole.data(), whole.size() * sizeof(float)), 0)
          << arrays << " arrays, " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PrivateBlocksTest,
                         testing::Combine(testing::ValuesIn(kPrivateSizes), testing::Values(1.0F, 1e-25F)));

TEST(PrivateBlocks, AnErrorOfOneBlockIsReturned) {
  const PrivateBlocks blocks(2, 300, 16, 8, 1);
  const std::vector<float> x(8 * 16), dy(8 * 300), weights(300 * 16);
  std::vector<float> workspace(static_cast<size_t>(blocks.workspace_bytes()) / sizeof(float));
  std::mutex mutex;
  std::vector<int64_t> begun;
  const absl::Status status =
      blocks.ForEach(x.data(), dy.data(), {weights.data()}, workspace.data(), [&](int64_t first, int64_t, float*) {
        const std::scoped_lock lock(mutex);
        begun.push_back(first);
        return first == 0 ? absl::InternalError("refused") : absl::OkStatus();
      });
  EXPECT_EQ(status.message(), "refused");
  EXPECT_THAT(begun, testing::Contains(0));
}

TEST(PrivateBlocks, ServeWhereTheyPay) {
  EXPECT_TRUE(PrivateBlocks(2, 2048, 2048, 256, 2).serve());
  EXPECT_TRUE(PrivateBlocks(2, 768, 3072, 512, 2).serve());
  EXPECT_FALSE(PrivateBlocks(2, 768, 3072, 6304, 2).serve()) << "a copy of x is large";
  EXPECT_FALSE(PrivateBlocks(2, 4096, 25088, 1, 2).serve()) << "rows are long";
  EXPECT_FALSE(PrivateBlocks(2, 64, 8192, 8, 2).serve()) << "a thread would have few rows";
  EXPECT_FALSE(PrivateBlocks(32, 1024, 2048, 64, 2).serve()) << "for so many threads there are few rows";
  EXPECT_FALSE(PrivateBlocks(2, 512, 1024, 500, 2).serve()) << "the gradient is hardly larger than what it takes";
}

}  // namespace
}  // namespace snug::core
