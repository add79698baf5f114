// Parts of a product in wide blocks, as threads have them: their bits, and the workspace that they take.
#include "ops/kernels/matmul/wide_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/bfloat16.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

// Of 1080 rows two threads have 528 and 552, and a block of 552 rows, cut equally, is smaller than one of 528.
TEST(WideBlocks, APartTakesNoMoreThanTheLargestOneNeeds) {
  if (CurrentIsa() == Isa::kBaseline) GTEST_SKIP() << "SKIPPED: this processor has no AVX2, or SNUG_ISA hides it";
  constexpr int64_t kM = 1080, kN = 512, kK = 72, kMost = 552;
  ASSERT_TRUE(wide_blocks::AreFor(kM, kN, kK));
  std::vector<float> a(kM * kK), b(kK * kN), whole(kM * kN), parts(kM * kN, NAN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 31) / 31 - 0.5F;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 37) / 37 - 0.5F;
  GemmCall<float> call{.m = kM, .n = kN, .k = kK, .a = {a.data(), kK, 1}, .b = {b.data(), kN, 1}, .c = whole.data()};
  Gemm<float>(1, call);
  call.c = parts.data();
  const auto needed = static_cast<size_t>(wide_blocks::Floats({kMost, kN}, kK, /*sums_apart=*/false));
  for (const auto& [row, rows] : {std::pair<int64_t, int64_t>(0, 528), {528, 552}}) {
    std::vector<float> workspace(2 * needed, -1.0F);
    wide_blocks::Multiply(call, Activation::kIdentity,
                          {.row = row, .rows = rows, .column = 0, .columns = kN, .most = {kMost, kN}},
                          workspace.data());
    for (size_t i = needed; i < workspace.size(); ++i) {
      ASSERT_EQ(workspace[i], -1.0F) << rows << " rows write float " << i << " of " << needed;
    }
  }
  EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0);
}

// A part that begins and ends within strips and panels, of matrices of which neither rows nor columns lie together.
TEST(WideBlocks, APartOfAnyMatricesIsWrittenAndNothingBesideIt) {
  if (CurrentIsa() == Isa::kBaseline) GTEST_SKIP() << "SKIPPED: this processor has no AVX2, or SNUG_ISA hides it";
  constexpr int64_t kM = 130, kN = 700, kK = 450;
  const wide_blocks::Part part = {.row = 13, .rows = 101, .column = 33, .columns = 411, .most = {101, 411}};
  ASSERT_TRUE(wide_blocks::AreFor(kM, kN, kK));
  std::vector<float> a(kM * (2 * kK + 3)), b(kN * (3 * kK + 1)), bias(kN), whole(kM * kN), parts(kM * kN, -7);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 31) / 31 - 0.5F;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 37) / 37 - 0.5F;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 11) - 5;
  GemmCall<float> call{.m = kM,
                       .n = kN,
                       .k = kK,
                       .a = {a.data(), 2 * kK + 3, 2},
                       .b = {b.data(), 3, 3 * kK + 1},
                       .c = whole.data(),
                       .bias = bias.data()};
  Gemm<float>(1, call);
  call.c = parts.data();
  std::vector<float> workspace(static_cast<size_t>(wide_blocks::Floats(part.most, kK, /*sums_apart=*/false)), NAN);
  wide_blocks::Multiply(call, Activation::kRelu, part, workspace.data());
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      const bool within =
          i >= part.row && i < part.row + part.rows && j >= part.column && j < part.column + part.columns;
      const auto at = static_cast<size_t>(i * kN + j);
      ASSERT_EQ(parts[at], within ? std::max(0.0F, whole[at]) : -7) << i << ", " << j;
    }
  }
}

// Sums of a result in bfloat16 are kept apart, of some rows and columns at a time: more of both than there are in a
// block, and a last block of few columns.
TEST(WideBlocks, SumsKeptApartAreRoundedOnce) {
  if (CurrentIsa() == Isa::kBaseline) GTEST_SKIP() << "SKIPPED: this processor has no AVX2, or SNUG_ISA hides it";
  constexpr int64_t kM = 400, kN = 1211, kK = 300;
  ASSERT_TRUE(wide_blocks::AreFor(kM, kN, kK));
  std::vector<BFloat16> a(kM * kK), b(kK * kN), c(kM * kN, BFloat16(-7.0F));
  for (size_t i = 0; i < a.size(); ++i) a[i] = BFloat16(static_cast<float>(i * 7 % 31) / 31 - 0.5F);
  for (size_t i = 0; i < b.size(); ++i) b[i] = BFloat16(static_cast<float>(i * 5 % 37) / 37 - 0.5F);
  const std::vector<float> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end());
  std::vector<float> sums(kM * kN);
  Gemm<float>(1,
              {.m = kM, .n = kN, .k = kK, .a = {wide_a.data(), 1, kM}, .b = {wide_b.data(), kN, 1}, .c = sums.data()});
  const wide_blocks::Part part = {.row = 24, .rows = 376, .column = 16, .columns = 1195, .most = {376, 1195}};
  const auto needed = static_cast<size_t>(wide_blocks::Floats(part.most, kK, /*sums_apart=*/true));
  std::vector<float> workspace(needed + 100, -1.0F);
  wide_blocks::Multiply<BFloat16, BFloat16, BFloat16>(
      {.m = kM, .n = kN, .k = kK, .a = {a.data(), 1, kM}, .b = {b.data(), kN, 1}, .c = c.data()}, Activation::kIdentity,
      part, workspace.data());
  for (size_t i = needed; i < workspace.size(); ++i) ASSERT_EQ(workspace[i], -1.0F) << i - needed;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      const auto at = static_cast<size_t>(i * kN + j);
      const bool within = i >= part.row && j >= part.column;
      ASSERT_EQ(c[at].bits, BFloat16(within ? sums[at] : -7.0F).bits) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace snug::core
