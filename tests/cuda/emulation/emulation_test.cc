// Tests the emulation that the conformance tests of CUDA kernels rely on: that it does what a device does, and that
// mistakes which a device would not report show.
#include "tests/cuda/emulation/emulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "engine/base/bfloat16.h"

namespace snug::core::cuda::emulation {
namespace {

constexpr unsigned kAll = 0xffffffffU;

// Runs `thread` once for each thread of each block.
void OnBlocks(unsigned blocks, unsigned threads, const Call& thread) { RunGrid(thread, {blocks, 1, 1}, threads)(); }

// Returns what of(lane) gives in each lane of one warp.
template <class Of>
auto InWarp(const Of& of) {
  std::vector<decltype(of(0))> results(32);
  OnBlocks(1, 32, [&] { results[threadIdx.x] = of(static_cast<int>(threadIdx.x)); });
  return results;
}

template <class Of>
std::vector<int> Lanes(const Of& of) {
  std::vector<int> lanes(32);
  for (int lane = 0; lane < 32; ++lane) lanes[static_cast<size_t>(lane)] = of(lane);
  return lanes;
}

TEST(Emulation, BarriersHoldABlocksThreadsTogether) {
  std::vector<int> array(128);
  std::iota(array.begin(), array.end(), 0);
  OnBlocks(2, 64, [&] {
    static int part[64];  // __shared__
    int* own = array.data() + static_cast<ptrdiff_t>(blockIdx.x * blockDim.x);
    part[threadIdx.x] = own[threadIdx.x];
    __syncthreads();
    own[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
  });
  for (int i = 0; i < 128; ++i) EXPECT_EQ(array[static_cast<size_t>(i)], i / 64 * 64 + 63 - i % 64);
}

TEST(Emulation, ThreadsOfOneBlockAreRunForwardsAndThoseOfTheNextBackwards) {
  std::vector<unsigned> order;
  OnBlocks(2, 64, [&] {
    if (threadIdx.x % 32 != 0) return __syncthreads();
    order.push_back(threadIdx.x);  // the first thread is tried before the others
    __syncthreads();
    order.push_back(threadIdx.x);
  });
  const std::vector<unsigned> one = {0, 32, 32, 0};
  const std::vector<unsigned> other = {0, 32, 0, 32};
  ASSERT_EQ(order.size(), 8U);
  const std::vector<unsigned> first(order.begin(), order.begin() + 4);
  const std::vector<unsigned> second(order.begin() + 4, order.end());
  EXPECT_TRUE((first == one && second == other) || (first == other && second == one));
}

TEST(Emulation, ShufflesAreCudas) {
  EXPECT_EQ(InWarp([](int lane) { return __shfl_sync(kAll, lane, lane + 3); }),
            Lanes([](int lane) { return (lane + 3) % 32; }));
  EXPECT_EQ(InWarp([](int lane) { return __shfl_sync(kAll, lane, 9, 8); }),
            Lanes([](int lane) { return lane / 8 * 8 + 1; }));
  EXPECT_EQ(InWarp([](int lane) { return __shfl_down_sync(kAll, lane, 4); }),
            Lanes([](int lane) { return lane + 4 < 32 ? lane + 4 : lane; }));
  EXPECT_EQ(InWarp([](int lane) { return __shfl_down_sync(kAll, lane, 1, 4); }),
            Lanes([](int lane) { return lane % 4 < 3 ? lane + 1 : lane; }));
  EXPECT_EQ(InWarp([](int lane) { return __shfl_up_sync(kAll, lane, 4); }),
            Lanes([](int lane) { return lane < 4 ? lane : lane - 4; }));
  EXPECT_EQ(InWarp([](int lane) { return __shfl_up_sync(kAll, lane, 1, 4); }),
            Lanes([](int lane) { return lane % 4 > 0 ? lane - 1 : lane; }));
  EXPECT_EQ(InWarp([](int lane) { return __shfl_xor_sync(kAll, lane, 5); }), Lanes([](int lane) { return lane ^ 5; }));
}

TEST(Emulation, ShufflesTakeEveryType) {
  EXPECT_EQ(InWarp([](int lane) { return __shfl_xor_sync(kAll, 0.5 + lane, 1); })[6], 7.5);
  EXPECT_EQ(InWarp([](int lane) { return __shfl_xor_sync(kAll, int64_t{lane} << 40, 1); })[6], int64_t{7} << 40);
}

TEST(Emulation, VotesAreCudas) {
  EXPECT_THAT(InWarp([](int lane) { return __ballot_sync(kAll, lane % 4 == 1); }), testing::Each(0x22222222U));
  EXPECT_THAT(InWarp([](int lane) { return __any_sync(kAll, lane == 7); }), testing::Each(true));
  EXPECT_THAT(InWarp([](int) { return __any_sync(kAll, false); }), testing::Each(false));
  EXPECT_THAT(InWarp([](int lane) { return __all_sync(kAll, lane < 32); }), testing::Each(true));
  EXPECT_THAT(InWarp([](int lane) { return __all_sync(kAll, lane != 7); }), testing::Each(false));
}

TEST(Emulation, PartsOfAWarpMeetByTheirMasks) {
  const auto sums = InWarp([](int lane) {
    if (lane >= 16) return __shfl_xor_sync(0xffff0000U, lane, 1);
    const int once = __shfl_xor_sync(0x0000ffffU, lane, 1);
    return __shfl_xor_sync(0x0000ffffU, once, 2);
  });
  EXPECT_EQ(sums, Lanes([](int lane) { return lane < 16 ? lane ^ 3 : lane ^ 1; }));
}

// Hands each thread its neighbour's number through shared memory, with a barrier of the warp or without.
std::vector<int> Neighbours(bool barrier) {
  return InWarp([barrier](int lane) {
    static int numbers[32];  // __shared__
    numbers[lane] = -1;
    __syncwarp();
    numbers[lane] = lane;
    if (barrier) __syncwarp();
    const int found = numbers[lane ^ 1];
    __syncwarp();
    return found;
  });
}

TEST(Emulation, AMissingBarrierOfAWarpShows) {
  for (int direction = 0; direction < 2; ++direction) {
    EXPECT_EQ(Neighbours(true), Lanes([](int lane) { return lane ^ 1; }));
    EXPECT_THAT(Neighbours(false), testing::Contains(-1));
  }
}

// A row of 16 bytes that every thread may have copied.
struct Rows {
  alignas(16) int64_t from[2] = {5, 6};
  alignas(16) int64_t to[2] = {1, 2};
};

TEST(Emulation, ACopyIsThereWhenItHasBeenWaitedFor) {
  Rows first;
  Rows second;
  OnBlocks(1, 1, [&] {
    CopyAsync16(first.to, first.from, true);
    core::CommitCopies();
    CopyAsync16(second.to, second.from, false);
    core::CommitCopies();
    EXPECT_EQ(first.to[0], -1);  // what was there has gone, what will be is not there yet
    core::WaitForCopies<1>();
    EXPECT_EQ(first.to[1], 6);
    EXPECT_EQ(second.to[0], -1);
    core::WaitForCopies<0>();
    EXPECT_EQ(second.to[0], 0);
  });
}

TEST(Emulation, ACopyIsThereForOthersAfterABarrier) {
  const auto sees = [](bool barrier) {
    Rows rows[2];
    int64_t found[2];
    OnBlocks(1, 2, [&] {
      __syncthreads();
      CopyAsync16(rows[threadIdx.x].to, rows[threadIdx.x].from, true);
      core::CommitCopies();
      core::WaitForCopies<0>();
      if (barrier) __syncthreads();
      found[threadIdx.x] = rows[1 - threadIdx.x].to[0];
      __syncthreads();
    });
    return std::vector<int64_t>(found, found + 2);
  };
  EXPECT_THAT(sees(true), testing::Each(5));
  EXPECT_THAT(sees(false), testing::Contains(testing::Ne(5)));
}

TEST(Emulation, MatricesLieInAWarpAsCudaSays) {
  alignas(16) uint16_t matrices[4][8][8];
  for (int i = 0; i < 256; ++i) matrices[i / 64][i / 8 % 8][i % 8] = static_cast<uint16_t>(i);
  OnBlocks(1, 32, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    uint32_t parts[4];
    LoadMatrices(matrices[lane / 8][lane % 8], parts);
    for (int m = 0; m < 4; ++m) {
      EXPECT_EQ(parts[m] & 0xffffU, matrices[m][lane / 4][lane % 4 * 2]);
      EXPECT_EQ(parts[m] >> 16, matrices[m][lane / 4][lane % 4 * 2 + 1]);
    }
    LoadMatricesTransposed(matrices[lane / 8][lane % 8], parts);
    for (int m = 0; m < 4; ++m) {
      EXPECT_EQ(parts[m] & 0xffffU, matrices[m][lane % 4 * 2][lane / 4]);
      EXPECT_EQ(parts[m] >> 16, matrices[m][lane % 4 * 2 + 1][lane / 4]);
    }
  });
}

TEST(Emulation, TensorCoresMultiply) {
  alignas(16) BFloat16 a[16][16];
  alignas(16) BFloat16 b[8][16];  // [column][row]
  for (int i = 0; i < 256; ++i) a[i / 16][i % 16] = static_cast<float>(i * 7 % 31 - 15);
  for (int i = 0; i < 128; ++i) b[i / 16][i % 16] = static_cast<float>(i * 5 % 23 - 11);
  float c[16][8];
  OnBlocks(1, 32, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    uint32_t left[4];
    uint32_t right[4];  // the rows of b are loaded twice
    LoadMatrices(&a[lane % 16][lane / 16 * 8], left);
    LoadMatrices(&b[lane % 8][lane / 8 % 2 * 8], right);
    float sums[4] = {1, 1, 1, 1};
    MultiplyAdd(sums, left, right[0], right[1]);
    for (int i = 0; i < 4; ++i) c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = sums[i];
  });
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float expected = 1;
      for (int k = 0; k < 16; ++k) expected += static_cast<float>(a[row][k]) * static_cast<float>(b[column][k]);
      EXPECT_EQ(c[row][column], expected) << row << ", " << column;
    }
  }
}

class EmulationDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EmulationDeathTest, ABarrierThatSomeThreadsSkipIsSeen) {
  EXPECT_DEATH(OnBlocks(1, 32,
                        [] {
                          if (threadIdx.x == 0) __syncthreads();
                        }),
               "some threads of a block wait, others have returned");
}

TEST_F(EmulationDeathTest, AMaskThatNamesAThreadThatDoesNotComeIsSeen) {
  EXPECT_DEATH(OnBlocks(1, 32,
                        [] {
                          if (threadIdx.x != 9) __shfl_xor_sync(kAll, 1, 1);
                        }),
               "__shfl_xor_sync: thread 0 waits for thread 9, which has returned");
  EXPECT_DEATH(OnBlocks(1, 32, [] { threadIdx.x != 9 ? __syncwarp() : __syncthreads(); }),
               "__syncwarp: thread 0 waits for thread 9, which waits for its block");
  EXPECT_DEATH(OnBlocks(1, 16, [] { __syncwarp(); }), "waits for thread 16, which the block does not have");
}

TEST_F(EmulationDeathTest, AThreadOutsideOfItsMaskIsSeen) {
  EXPECT_DEATH(OnBlocks(1, 32, [] { __syncwarp(0xffff); }), "__syncwarp: thread .* is not in its own mask");
}

TEST_F(EmulationDeathTest, AShuffleFromOutsideOfTheMaskIsSeen) {
  EXPECT_DEATH(OnBlocks(1, 32,
                        [] {
                          if (threadIdx.x < 16) __shfl_xor_sync(0xffff, 1, 16);
                        }),
               "__shfl_xor_sync: reads a lane that is not in the mask");
}

TEST_F(EmulationDeathTest, ACopyThatNobodyHasWaitedForIsSeen) {
  Rows rows;
  EXPECT_DEATH(OnBlocks(1, 1, [&] { CopyAsync16(rows.to, rows.from, true); }), "copies that it has not waited for");
}

TEST_F(EmulationDeathTest, ACopyBetweenOddAddressesIsSeen) {
  Rows rows;
  EXPECT_DEATH(OnBlocks(1, 1, [&] { CopyAsync16(reinterpret_cast<char*>(rows.to) + 8, rows.from, true); }),
               "an address is no multiple of 16");
}

}  // namespace
}  // namespace snug::core::cuda::emulation
