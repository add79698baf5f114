#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "memory/problem.h"
#include "tests/memory/random_problems.h"

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

// Positions of an order are counted; moments of a trace may be any numbers.
TEST(LowerBound, IsThatOfMomentsFarApart) {
  constexpr int32_t kFar = 1'000'000;
  std::mt19937 random(7);
  for (int turn = 0; turn < 200; ++turn) {
    Problem problem = RandomProblem(random, 30);
    for (Buffer& buffer : problem.buffers) buffer.alignment = 1 << (random() % 7);
    const int64_t bound = LowerBound(problem);
    int64_t most = 0;  // that is live at one position, without what rounding adds
    for (int32_t at = 0; at < 30; ++at) {
      int64_t live = 0;
      for (const Buffer& buffer : problem.buffers)
        live += buffer.first < at && LiveAt(buffer, at) ? buffer.size_bytes : 0;
      most = std::max(most, live);
    }
    EXPECT_GE(bound, most);
    for (Buffer& buffer : problem.buffers) {
      buffer.first *= kFar;
      buffer.last = buffer.last * kFar + (kFar - 1);
    }
    problem.in_place.clear();  // an output no longer begins where its input ends
    const int64_t apart = LowerBound(problem);
    for (Buffer& buffer : problem.buffers) {
      buffer.first /= kFar;
      buffer.last /= kFar;
    }
    EXPECT_EQ(LowerBound(problem), apart);
  }
}

TEST(LowerBound, SeesFixedOffsets) {
  Problem problem{.buffers = {Live(0, 1, 8)}};
  problem.buffers[0].fixed_offset = 100;
  EXPECT_EQ(LowerBound(problem), 108);
}

}  // namespace
}  // namespace snug::core::memory
