#include <gtest/gtest.h>

#include "memory/problem.h"

namespace snug::core::memory {
namespace {

Buffer Live(int32_t first, int32_t last, int64_t size, int64_t alignment = 1) {
  return {.size_bytes = size, .alignment = alignment, .first = first, .last = last};
}

TEST(LowerBound, IsTheLargestLoad) {
  EXPECT_EQ(LowerBound({}), 0);
  EXPECT_EQ(LowerBound({.buffers = {Live(0, 1, 3), Live(1, 2, 4), Live(2, 3, 5)}}), 9);
}

TEST(LowerBound, LeavesGapsOut) {
  Problem problem{.buffers = {Live(0, 9, 3), Live(4, 5, 4)}};
  EXPECT_EQ(LowerBound(problem), 7);
  problem.buffers[0].gaps = {{4, 5}};
  EXPECT_EQ(LowerBound(problem), 4);
}

TEST(LowerBound, RoundsAllButTheTopmost) {
  EXPECT_EQ(LowerBound({.buffers = {Live(0, 0, 1, 64), Live(0, 0, 60, 64)}}), 65);
  EXPECT_EQ(LowerBound({.buffers = {Live(0, 0, 1, 64), Live(0, 0, 60, 32)}}), 64 + 1);
}

TEST(LowerBound, AnOutputOverItsInputDoesNotCountTwice) {
  Problem problem{.buffers = {Live(0, 1, 8), Live(1, 2, 8)}};
  EXPECT_EQ(LowerBound(problem), 16);
  problem.in_place = {{.output = 1, .input = 0}};
  EXPECT_EQ(LowerBound(problem), 8);
}

TEST(LowerBound, SeesFixedOffsets) {
  Problem problem{.buffers = {Live(0, 1, 8)}};
  problem.buffers[0].fixed_offset = 100;
  EXPECT_EQ(LowerBound(problem), 108);
}

}  // namespace
}  // namespace snug::core::memory
