// The simulation of PyTorch's allocator: its rules one by one, and what it reserves for real training steps.
#include "memory/allocator/caching.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "memory/formats/formats.h"
#include "memory/tasks.h"
#include "tests/memory/shared_data.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(CachingAllocator, RoundsRequestsUpTo512Bytes) {
  CachingAllocator allocator;
  allocator.Allocate(1);
  EXPECT_EQ(allocator.statistics().block_bytes, 512);
  allocator.Allocate(513);
  EXPECT_EQ(allocator.statistics().block_bytes, 512 + 1024);
  EXPECT_EQ(allocator.statistics().requested_bytes, 514);
}

TEST(CachingAllocator, TakesSegmentsByTheSizeOfTheRequest) {
  struct Case {
    int64_t bytes, segment;
  };
  for (const Case& c : {Case{1, 2 * kMiB},
                        {kMiB, 2 * kMiB},
                        {kMiB + 1, 20 * kMiB},
                        {10 * kMiB - 512, 20 * kMiB},
                        {10 * kMiB, 10 * kMiB},
                        {11 * kMiB, 12 * kMiB},
                        {21 * kMiB + 5, 22 * kMiB},
                        {100 * kMiB, 100 * kMiB}}) {
    CachingAllocator allocator;
    allocator.Allocate(c.bytes);
    EXPECT_EQ(allocator.statistics().reserved_bytes, c.segment) << c.bytes;
    EXPECT_EQ(allocator.statistics().segments, 1);
  }
}

TEST(CachingAllocator, SmallAndLargeRequestsShareNoSegment) {
  CachingAllocator allocator;
  allocator.Allocate(512);       // 2 MiB, of which nearly all is free
  allocator.Allocate(2 * kMiB);  // 20 MiB
  allocator.Allocate(kMiB);      // from the small segment
  EXPECT_EQ(allocator.statistics().reserved_bytes, 22 * kMiB);
}

TEST(CachingAllocator, SmallBlocksAreCutToTheByteAndLargeOnesKeepUpToAMebibyte) {
  CachingAllocator allocator;
  allocator.Free(allocator.Allocate(12 * kMiB));  // a free block of 12 MiB
  const int32_t block = allocator.Allocate(11 * kMiB);
  EXPECT_EQ(allocator.statistics().block_bytes, 12 * kMiB) << "exactly 1 MiB is left over: not cut";
  allocator.Free(block);
  allocator.Allocate(11 * kMiB - 512);
  EXPECT_EQ(allocator.statistics().block_bytes, 11 * kMiB - 512) << "more than 1 MiB is left over: cut";
  EXPECT_EQ(allocator.statistics().reserved_bytes, 12 * kMiB);
}

TEST(CachingAllocator, TheSmallestBlockThatIsLargeEnoughServes) {
  CachingAllocator allocator;
  const int32_t large = allocator.Allocate(40 * kMiB);
  const int32_t middle = allocator.Allocate(30 * kMiB);
  allocator.Free(large);
  allocator.Free(middle);
  allocator.Allocate(30 * kMiB);  // best fit: the 30 are gone, the 40 are whole
  allocator.Allocate(40 * kMiB);
  EXPECT_EQ(allocator.statistics().reserved_bytes, 70 * kMiB);
}

TEST(CachingAllocator, FreeNeighboursJoinInEverySequence) {
  std::vector<size_t> sequence = {0, 1, 2};
  do {
    CachingAllocator allocator;
    allocator.Free(allocator.Allocate(60 * kMiB));
    std::vector<int32_t> thirds;
    for (int i = 0; i < 3; ++i) thirds.push_back(allocator.Allocate(20 * kMiB));
    EXPECT_EQ(allocator.statistics().reserved_bytes, 60 * kMiB) << "three cuts of one segment";
    for (const size_t i : sequence) allocator.Free(thirds[i]);
    allocator.Allocate(60 * kMiB);
    EXPECT_EQ(allocator.statistics().reserved_bytes, 60 * kMiB);
  } while (std::next_permutation(sequence.begin(), sequence.end()));
}

TEST(CachingAllocator, SegmentsDoNotJoinAndNothingIsMoved) {
  CachingAllocator allocator;
  const int32_t a = allocator.Allocate(20 * kMiB);
  const int32_t b = allocator.Allocate(20 * kMiB);
  allocator.Free(a);
  allocator.Free(b);
  allocator.Allocate(40 * kMiB);  // 40 MiB are free, in two segments
  EXPECT_EQ(allocator.statistics().reserved_bytes, 80 * kMiB);
  EXPECT_EQ(allocator.statistics().peak_block_bytes, 40 * kMiB);
}

TEST(CachingAllocator, ABlockInUseKeepsItsNeighboursApart) {
  CachingAllocator allocator;
  allocator.Free(allocator.Allocate(60 * kMiB));
  const int32_t a = allocator.Allocate(20 * kMiB);
  allocator.Allocate(20 * kMiB);
  const int32_t c = allocator.Allocate(20 * kMiB);
  allocator.Free(a);
  allocator.Free(c);
  allocator.Allocate(30 * kMiB);
  EXPECT_EQ(allocator.statistics().reserved_bytes, 90 * kMiB);
}

TEST(SimulateCachingAllocator, TakesBeforeItFreesAndBeginsTheNextStepOnWhatIsThere) {
  // At position 1 `b` begins while `a` still lives; at position 2 `c` finds the bytes of `a`.
  const Problem step{.buffers = {{.name = "a", .size_bytes = 12 * kMiB, .first = 0, .last = 1},
                                 {.name = "b", .size_bytes = 14 * kMiB, .first = 1, .last = 2},
                                 {.name = "c", .size_bytes = 12 * kMiB, .first = 2, .last = 2},
                                 {.name = "nothing", .size_bytes = 0, .first = 0, .last = 2}}};
  for (const int steps : {1, 2, 5}) {
    const CachingStatistics statistics = SimulateCachingAllocator({.resident = {30 * kMiB, 0}, .step = step}, steps);
    EXPECT_EQ(statistics.reserved_bytes, (30 + 12 + 14) * kMiB);
    EXPECT_EQ(statistics.peak_requested_bytes, (30 + 12 + 14) * kMiB);
    EXPECT_EQ(statistics.requested_bytes, 30 * kMiB);
  }
}

// Sixteen training steps as PyTorch 1.13 ran them, and what another simulation of the same allocator reserved for them.
TEST(SimulateCachingAllocator, ReservesForTracedTrainingStepsWhatAnotherSimulationDoes) {
  const std::string folder = SharedData("olla/");
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "SKIPPED: no " << folder;
  std::ifstream file(folder + "best_known.csv");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  int graphs = 0;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ',');
    ASSERT_EQ(fields.size(), 7u) << line;
    int64_t peak = 0;
    int64_t reserved = 0;
    ASSERT_TRUE(absl::SimpleAtoi(fields[1], &peak) && absl::SimpleAtoi(fields[6], &reserved)) << line;
    const auto graph = ReadGraphFile(folder + "graphs/" + fields[0] + ".graph.gz");
    ASSERT_TRUE(graph.ok()) << graph.status();
    const absl::StatusOr<Requests> requests = RequestsOf(graph->tasks);
    ASSERT_TRUE(requests.ok()) << requests.status();
    const CachingStatistics statistics = SimulateCachingAllocator(*requests, 3);
    EXPECT_EQ(statistics.peak_requested_bytes, peak) << fields[0];
    EXPECT_EQ(statistics.reserved_bytes, reserved) << fields[0];
    ++graphs;
  }
  EXPECT_EQ(graphs, 16);
}

}  // namespace
}  // namespace snug::core::memory
