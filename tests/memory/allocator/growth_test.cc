// When and by how much each allocator grows, and what goes past its pool.
#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "memory/allocator/allocator.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

// Whether a block of `bytes` came from the pool; it is freed again.
bool Pooled(Allocator* allocator, int64_t bytes) {
  void* address = Take(allocator, bytes);
  EXPECT_NE(address, nullptr) << bytes;
  const bool pooled = allocator->statistics().direct_bytes == 0;
  EXPECT_TRUE(allocator->Free(address).ok());
  return pooled;
}

TEST(AllocatorPrealloc, InitialOverReallocateMakesTheLargestPooledSize) {
  const auto device = PretendedDevice(8000 * kMB);
  const auto allocator = MakeAllocator({.allocator = "prealloc", .initial_mb = 100, .reallocate_mb = 50}, device.get());
  EXPECT_EQ(allocator->max_pooled_bytes(), 100 * kMB);
  for (const int64_t mb : {10, 80, 99}) EXPECT_TRUE(Pooled(allocator.get(), mb * kMB)) << mb;
  EXPECT_EQ(device->sizes(), std::vector<int64_t>{100 * kMB / 256 * 256});
  for (const int64_t mb : {101, 1000}) EXPECT_FALSE(Pooled(allocator.get(), mb * kMB)) << mb;
  EXPECT_EQ(allocator->max_pooled_bytes(), 100 * kMB);
  EXPECT_EQ(device->chunks().size(), 1u);  // the two went back at once
}

TEST(AllocatorPrealloc, ReallocateOverInitialMakesTheLargestPooledSize) {
  const auto device = PretendedDevice(8000 * kMB);
  const auto allocator = MakeAllocator({.allocator = "prealloc", .initial_mb = 5, .reallocate_mb = 10}, device.get());
  EXPECT_EQ(allocator->max_pooled_bytes(), 10 * kMB);
  for (const int64_t mb : {1, 6, 8, 9}) EXPECT_TRUE(Pooled(allocator.get(), mb * kMB)) << mb;
  EXPECT_FALSE(Pooled(allocator.get(), 11 * kMB));
  // The first chunk, one more for 6 MB, both rounded down to the alignment; and the 11 MB themselves.
  EXPECT_EQ(device->sizes(), (std::vector<int64_t>{4'999'936, 9'999'872, 11'000'064}));
}

TEST(AllocatorPrealloc, TwoLiveBlocksOfNearlyAChunkTakeTwoChunks) {
  const auto device = PretendedDevice(8000 * kMB);
  const auto allocator = MakeAllocator({.allocator = "prealloc", .initial_mb = 10, .reallocate_mb = 10}, device.get());
  ASSERT_NE(Take(allocator.get(), 10 * kMB - 1000), nullptr);
  ASSERT_NE(Take(allocator.get(), 10 * kMB - 1000), nullptr);
  EXPECT_EQ(device->chunks().size(), 2u);
  EXPECT_EQ(allocator->statistics().direct_bytes, 0);
}

TEST(AllocatorPrealloc, FractionIsOfWhatIsFreeAtEachGrowth) {
  const auto device = PretendedDevice(1000 * kMB);
  const auto allocator = MakeAllocator({.allocator = "prealloc", .fraction_of_device_memory = 0.6}, device.get());
  const int64_t most = allocator->max_pooled_bytes();
  EXPECT_EQ(most, 600 * kMB);
  ASSERT_NE(Take(allocator.get(), most - 1000), nullptr);
  for (int i = 0; i < 2; ++i) {
    const auto rest = static_cast<int64_t>(0.6 * static_cast<double>(device->available_bytes()));
    ASSERT_NE(Take(allocator.get(), rest), nullptr);
    EXPECT_EQ(allocator->max_pooled_bytes(), most);
  }
  EXPECT_EQ(device->chunks().size(), 3u);
  EXPECT_EQ(allocator->statistics().direct_bytes, 0);
}

TEST(AllocatorPrealloc, ReserveIsLeftAloneFirst) {
  const auto device = PretendedDevice(1000 * kMB);
  const auto allocator =
      MakeAllocator({.allocator = "prealloc", .fraction_of_device_memory = 0.5, .device_reserve = 0.05}, device.get());
  EXPECT_EQ(allocator->max_pooled_bytes(), 475 * kMB);
}

TEST(AllocatorPrealloc, FractionZeroLeavesEverythingToTheSystem) {
  const auto device = PretendedDevice(1000 * kMB);
  const auto allocator = MakeAllocator({.allocator = "prealloc", .fraction_of_device_memory = 0}, device.get());
  void* a = Take(allocator.get(), 3 * kMB);
  void* b = Take(allocator.get(), 1000);
  EXPECT_EQ(1000 * kMB - device->available_bytes(), allocator->statistics().reserved_bytes);
  EXPECT_EQ(allocator->used_bytes(), 3 * kMB + 1000);
  EXPECT_LT(allocator->statistics().reserved_bytes - allocator->used_bytes(), 2 * 256);  // the granularity
  EXPECT_TRUE(allocator->Free(a).ok());
  EXPECT_TRUE(allocator->Free(b).ok());
  EXPECT_EQ(device->available_bytes(), 1000 * kMB);
}

TEST(AllocatorPrealloc, MoreThanIsAvailableIsAnErrorAtOnce) {
  const auto device = PretendedDevice(100 * kMB);
  const auto status =
      Allocator::Create({.allocator = "prealloc", .initial_mb = 50, .reallocate_mb = 101}, device.get()).status();
  EXPECT_EQ(status, absl::ResourceExhaustedError("option \"reallocate_mb\": expected at most the 100000000 bytes that "
                                                 "are free, found 101000000 bytes"));
  EXPECT_TRUE(device->sizes().empty());
}

TEST(AllocatorPrealloc, TwoWithFractionFourTenthsShareADevice) {
  const auto device = PretendedDevice(1000 * kMB);
  const AllocatorOptions options{.allocator = "prealloc", .fraction_of_device_memory = 0.4, .retry_ms = 0};
  const auto one = MakeAllocator(options, device.get());
  const auto other = MakeAllocator(options, device.get());
  EXPECT_NE(Take(one.get(), 399 * kMB), nullptr);
  EXPECT_NE(Take(other.get(), 399 * kMB), nullptr);
}

TEST(AllocatorAutoGrowth, TwoShareADevice) {
  const auto device = PretendedDevice(1000 * kMB);
  const auto one = MakeAllocator({}, device.get());
  const auto other = MakeAllocator({}, device.get());
  for (int i = 0; i < 49; ++i) {
    ASSERT_NE(Take(one.get(), 10 * kMB), nullptr);
    ASSERT_NE(Take(other.get(), 10 * kMB), nullptr);
  }
}

TEST(AllocatorAutoGrowth, OneChunkServesTenTimesTheSameRequest) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.alignment = 4096}, device.get());
  for (int i = 0; i < 10; ++i) {
    void* address = Take(allocator.get(), 8192);
    ASSERT_NE(address, nullptr);
    ASSERT_TRUE(allocator->Free(address).ok());
  }
  EXPECT_EQ(device->sizes(), std::vector<int64_t>{8192});
}

TEST(AllocatorAutoGrowth, IdleChunksGoBackBeforeTheOneRetry) {
  constexpr int64_t kX1 = 1 << 20, kX2 = 2 << 20, kX3 = 4 << 20;
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.memory_limit = kX1 + kX2 + kX3 / 2}, device.get());
  for (const int64_t bytes : {kX1, kX2}) ASSERT_TRUE(allocator->Free(Take(allocator.get(), bytes)).ok());
  EXPECT_EQ(device->frees(), 0);
  EXPECT_NE(Take(allocator.get(), kX3), nullptr);
  EXPECT_EQ(device->frees(), 2);
  EXPECT_EQ(device->sizes(), (std::vector<int64_t>{kX1, kX2, kX3}));
}

TEST(AllocatorAutoGrowth, ChunksAreAtLeastAsLargeAsTheOptionSays) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.auto_growth_chunk_mb = 4}, device.get());
  ASSERT_NE(Take(allocator.get(), 1000), nullptr);
  ASSERT_NE(Take(allocator.get(), 2 * kMB), nullptr);
  ASSERT_NE(Take(allocator.get(), 9 * kMB), nullptr);
  EXPECT_EQ(device->sizes(), (std::vector<int64_t>{4 * kMB, 9'000'192}));
}

TEST(AllocatorAutoGrowth, ASmallerChunkIsTakenWhereALargeOneDoesNotFit) {
  const auto device = PretendedDevice(kMB);
  const auto allocator = MakeAllocator({.auto_growth_chunk_mb = 4}, device.get());
  ASSERT_NE(Take(allocator.get(), 256 * 100), nullptr);
  EXPECT_EQ(device->sizes(), std::vector<int64_t>{256 * 100});
}

// A step of training as the allocator sees it: activations on the way forward, gradients and frees on the way back,
// workspaces in between.
void TrainingStep(Allocator* allocator, const std::vector<int64_t>& sizes) {
  std::vector<void*> activations;
  for (const int64_t bytes : sizes) {
    void* workspace = Take(allocator, bytes / 3 + 1);
    activations.push_back(Take(allocator, bytes));
    ASSERT_TRUE(allocator->Free(workspace).ok());
  }
  void* gradient = Take(allocator, 4);
  while (!activations.empty()) {
    void* next = Take(allocator, sizes[activations.size() - 1]);
    ASSERT_TRUE(allocator->Free(gradient).ok());
    ASSERT_TRUE(allocator->Free(activations.back()).ok());
    activations.pop_back();
    gradient = next;
  }
  ASSERT_TRUE(allocator->Free(gradient).ok());
}

TEST(AllocatorAutoGrowth, TrainingAsksTheSystemForNothingFromItsThirdStep) {
  int settled = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> sizes(100);
    for (int64_t& bytes : sizes) bytes = static_cast<int64_t>(1024 << (random() % 8)) * (1 + random() % 3);
    const auto device = PretendedDevice(-1);
    const auto allocator = MakeAllocator({}, device.get());
    for (int step = 0; step < 2; ++step) TrainingStep(allocator.get(), sizes);
    const int64_t after_two = allocator->statistics().system_allocations;
    ASSERT_GT(after_two, 0);
    for (int step = 2; step < 10; ++step) TrainingStep(allocator.get(), sizes);
    settled += allocator->statistics().system_allocations == after_two;
  }
  EXPECT_EQ(settled, 200);
}

TEST(AllocatorBuddy, RequestsAboveTheLargestPoolGoToTheSystem) {
  const auto device = PretendedDevice(-1);
  const auto allocator =
      MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 1, .buddy_max_pool_mb = 8}, device.get());
  EXPECT_TRUE(Pooled(allocator.get(), 100));
  EXPECT_EQ(device->sizes(), std::vector<int64_t>{kMB / 256 * 256});
  EXPECT_TRUE(Pooled(allocator.get(), 7 * kMB));
  EXPECT_FALSE(Pooled(allocator.get(), 9 * kMB));
  EXPECT_EQ(device->frees(), 1);
}

TEST(AllocatorBuddy, BlocksFromTheSystemCountAsUsedAndAreListedApart) {
  const auto device = PretendedDevice(-1);
  const auto allocator =
      MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 1, .buddy_max_pool_mb = 8}, device.get());
  ASSERT_NE(Take(allocator.get(), 1000), nullptr);
  ASSERT_NE(Take(allocator.get(), 9 * kMB), nullptr);
  EXPECT_EQ(allocator->used_bytes(), 9 * kMB + 1000);
  EXPECT_EQ(allocator->statistics().direct_bytes, 9 * kMB);
}

TEST(AllocatorSystem, EveryRequestGoesToTheSystem) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.allocator = "system"}, device.get());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(allocator->Free(Take(allocator.get(), 1000)).ok());
  EXPECT_EQ(device->sizes().size(), 5u);
  EXPECT_EQ(device->frees(), 5);
  EXPECT_EQ(allocator->statistics().reserved_bytes, 0);
}

TEST(AllocatorLimit, ChunksInStoreCount) {
  const auto device = PretendedDevice(1000 * kMB);
  const auto allocator = MakeAllocator(
      {.allocator = "buddy", .buddy_initial_mb = 4, .buddy_max_pool_mb = 8, .memory_limit = 10 * kMB, .retry_ms = 0},
      device.get());
  void* small = Take(allocator.get(), 1000);           // holds a chunk of 4 MB
  EXPECT_EQ(Take(allocator.get(), 7 * kMB), nullptr);  // 990 MB are free on the device
  EXPECT_NE(Take(allocator.get(), 5 * kMB), nullptr);
  EXPECT_TRUE(allocator->Free(small).ok());
}

TEST(AllocatorLimit, IsReachedToTheByte) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.memory_limit = 1024, .retry_ms = 0}, device.get());
  void* all = Take(allocator.get(), 1024);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(Take(allocator.get(), 1), nullptr);
  ASSERT_TRUE(allocator->Free(all).ok());
  EXPECT_EQ(Take(allocator.get(), 1025), nullptr);
}

}  // namespace
}  // namespace snug::core::memory
