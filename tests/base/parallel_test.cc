#include "engine/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "engine/base/random.h"

namespace snug::core {
namespace {

TEST(ParallelFor, VisitsEveryIndexOnceInChunksOfTheShape) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const int64_t n : {1, 2, 7, 64, 1000}) {
      for (const int64_t chunk : {1, 3, 64, 2000}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
        std::atomic<int> misplaced = 0;
        ParallelFor(threads, n, chunk, [&](int64_t begin, int64_t end) {
          if (begin % chunk != 0 || end != std::min(n, begin + chunk)) ++misplaced;
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        EXPECT_EQ(misplaced, 0) << "threads " << threads << " n " << n << " chunk " << chunk;
        for (const std::atomic<int>& count : visits) ASSERT_EQ(count, 1);
      }
    }
  }
}

TEST(ParallelFor, DoesNothingForNothing) {
  int calls = 0;
  ParallelFor(4, 0, 16, [&](int64_t, int64_t) { ++calls; });
  ParallelFor(4, -3, 16, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

TEST(ParallelFor, TakesAChunkOfNothingAsOne) {
  std::atomic<int> calls = 0;
  ParallelFor(2, 5, 0, [&](int64_t begin, int64_t end) { calls += begin + 1 == end; });
  EXPECT_EQ(calls, 5);
}

TEST(ParallelFor, PartialSumsAreTheSameBitsOnAnyNumberOfThreads) {
  constexpr int64_t kCount = 10007;
  constexpr int64_t kChunk = 256;
  const auto sum = [](int threads) {
    std::vector<float> partial((kCount + kChunk - 1) / kChunk);
    ParallelFor(threads, kCount, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        partial[static_cast<size_t>(begin / kChunk)] += ToUniform(Philox{1}(0, static_cast<uint64_t>(i))[0]) / 3;
      }
    });
    float total = 0;
    for (const float p : partial) total += p;
    return total;
  };
  const float expected = sum(1);
  for (const int threads : {2, 3, 5, 16}) EXPECT_EQ(sum(threads), expected) << threads;
}

TEST(ParallelFor, NestsWithoutLosingWork) {
  std::vector<std::atomic<int>> visits(6 * 50);
  ParallelFor(3, 6, 1, [&](int64_t row, int64_t) {
    ParallelFor(3, 50, 4, [&visits, row](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(row * 50 + i)];
    });
  });
  for (const std::atomic<int>& count : visits) ASSERT_EQ(count, 1);
}

}  // namespace
}  // namespace snug::core
