// What every allocator promises: alignment, zero bytes, wrong frees, options, statistics.
#include "memory/allocator/allocator.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/allocator/host_source.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

class EveryAllocator : public ::testing::TestWithParam<const char*> {
 protected:
  EveryAllocator() : allocator_(MakeAllocator(Options(), &source_)) {}
  static AllocatorOptions Options() {
    return {.allocator = GetParam(), .initial_mb = 8, .buddy_initial_mb = 1, .buddy_max_pool_mb = 2, .retry_ms = 0};
  }

  HostSource source_{256};
  const std::unique_ptr<Allocator> allocator_;
};
INSTANTIATE_TEST_SUITE_P(Allocator, EveryAllocator, ::testing::Values("auto_growth", "prealloc", "buddy", "system"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryAllocator, SizesByPowersOfFourAreAligned) {
  const uintptr_t alignment = GetParam() == std::string("auto_growth") ? 256 : 64;
  std::vector<void*> blocks;
  for (int64_t bytes = 128; bytes <= int64_t{4} << 20; bytes *= 4) {
    void* address = Take(allocator_.get(), bytes);
    ASSERT_NE(address, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % alignment, 0u) << bytes;
    blocks.push_back(address);
  }
  for (void* block : blocks) EXPECT_TRUE(allocator_->Free(block).ok());
}

TEST_P(EveryAllocator, ZeroBytesAreNullAndFreeToFree) {
  const absl::StatusOr<void*> address = allocator_->Allocate(0);
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address, nullptr);
  EXPECT_TRUE(allocator_->Free(*address).ok());
  EXPECT_EQ(allocator_->statistics().allocations, 0);
}

TEST_P(EveryAllocator, RefusesNegativeAndAbsurdSizes) {
  EXPECT_EQ(allocator_->Allocate(-1).status(),
            absl::InvalidArgumentError("expected 0 to 1152921504606846976 bytes, found -1"));
  EXPECT_EQ(allocator_->Allocate(INT64_MAX).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator_->Allocate(int64_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(EveryAllocator, FreeingTwiceIsAnError) {
  void* kept = Take(allocator_.get(), 100);
  void* address = Take(allocator_.get(), 100);
  ASSERT_TRUE(allocator_->Free(address).ok());
  const absl::Status status = allocator_->Free(address);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("is not a block in use on cpu"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("freed"), absl::string_view::npos) << status;
  EXPECT_EQ(allocator_->used_bytes(), 100);
  EXPECT_TRUE(allocator_->Free(kept).ok());
}

TEST_P(EveryAllocator, FreeingAForeignPointerIsAnError) {
  int foreign = 0;
  const absl::Status status = allocator_->Free(&foreign);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("it is not from this allocator"), absl::string_view::npos) << status;
}

TEST_P(EveryAllocator, FreeingAPointerIntoABlockIsAnError) {
  auto* address = static_cast<std::byte*>(Take(allocator_.get(), 100));
  const absl::Status status = allocator_->Free(address + 8);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("points into a block"), absl::string_view::npos) << status;
  EXPECT_TRUE(allocator_->Free(address).ok());
}

TEST_P(EveryAllocator, CountsWhatWasAskedFor) {
  void* a = Take(allocator_.get(), 1);
  void* b = Take(allocator_.get(), 1000);
  EXPECT_TRUE(allocator_->Free(a).ok());
  a = Take(allocator_.get(), 10);
  const AllocatorStatistics s = allocator_->statistics();
  EXPECT_EQ(s.used_bytes, 1010);
  EXPECT_EQ(s.peak_used_bytes, 1010);
  EXPECT_EQ(s.live_blocks, 2);
  EXPECT_EQ(s.allocations, 3);
  EXPECT_EQ(s.frees, 1);
  EXPECT_GE(s.block_bytes, s.used_bytes);
  EXPECT_GE(s.reserved_bytes, s.block_bytes);
  EXPECT_TRUE(allocator_->Free(a).ok());
  EXPECT_TRUE(allocator_->Free(b).ok());
  EXPECT_EQ(allocator_->used_bytes(), 0);
  EXPECT_EQ(allocator_->statistics().peak_used_bytes, 1010);
}

TEST_P(EveryAllocator, GivesEverythingBackInTheEnd) {
  BookedSource booked(std::make_unique<HostSource>(256));
  {
    const auto allocator = MakeAllocator(Options(), &booked);
    for (int i = 0; i < 10; ++i) ASSERT_NE(Take(allocator.get(), 300'000), nullptr);
    EXPECT_FALSE(booked.chunks().empty());
  }
  EXPECT_TRUE(booked.chunks().empty());
  EXPECT_EQ(booked.wrong_frees(), 0);
}

TEST(AllocatorBlockMap, NamesBlocksInUseAndShowsFreeOnes) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.auto_growth_chunk_mb = 1}, device.get());
  void* a = Take(allocator.get(), 300, {.name = "conv1"});
  ASSERT_NE(Take(allocator.get(), 100, {.name = "relu1"}), nullptr);
  ASSERT_TRUE(allocator->Free(a).ok());
  const std::vector<BlockInfo> map = allocator->BlockMap();
  ASSERT_EQ(map.size(), 3u);
  EXPECT_TRUE(map[0].free);
  EXPECT_EQ(map[0].block_bytes, 512);
  EXPECT_FALSE(map[1].free);
  EXPECT_EQ(map[1].name, "relu1");
  EXPECT_EQ(map[1].bytes, 100);
  EXPECT_EQ(map[1].offset, 512);
  EXPECT_TRUE(map[2].free);
}

TEST(AllocatorStatistics, FragmentationIsTheUnusedShareAtTheReservedPeak) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({}, device.get());
  void* small = Take(allocator.get(), 1 << 20);
  ASSERT_TRUE(allocator->Free(small).ok());
  EXPECT_EQ(allocator->statistics().Fragmentation(), 0);  // at the peak all was in use
  ASSERT_NE(Take(allocator.get(), 3 << 20), nullptr);     // the first chunk is too small and stays
  EXPECT_EQ(allocator->statistics().peak_reserved_bytes, 4 << 20);
  EXPECT_EQ(allocator->statistics().used_at_reserved_peak, 3 << 20);
  EXPECT_DOUBLE_EQ(allocator->statistics().Fragmentation(), 0.25);
}

TEST(AllocatorStatistics, FragmentationIsThatOfThePeakOfWhatIsInUseInThePool) {
  const auto device = PretendedDevice(-1);
  const auto allocator =
      MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 4, .buddy_max_pool_mb = 4}, device.get());
  void* first = Take(allocator.get(), 1'000'000);  // the pool is there, and nearly empty
  EXPECT_DOUBLE_EQ(allocator->statistics().Fragmentation(), 0.75);
  ASSERT_NE(Take(allocator.get(), 2'000'000), nullptr);
  EXPECT_DOUBLE_EQ(allocator->statistics().Fragmentation(), 0.25);
  ASSERT_TRUE(allocator->Free(first).ok());
  ASSERT_NE(Take(allocator.get(), 500'000), nullptr);
  EXPECT_DOUBLE_EQ(allocator->statistics().Fragmentation(), 0.25);
}

TEST(AllocatorOptions, WrongOnesAreNamed) {
  const auto device = PretendedDevice(-1);
  const auto error = [&device](const AllocatorOptions& options) {
    return std::string(Allocator::Create(options, device.get()).status().message());
  };
  EXPECT_EQ(error({.allocator = "slab"}),
            "option \"allocator\": expected auto_growth, prealloc, buddy or system, found \"slab\"");
  EXPECT_EQ(error({.fraction_of_device_memory = 1.5}),
            "option \"fraction_of_device_memory\": expected a share from 0 to 1, found 1.5");
  EXPECT_EQ(error({.memory_limit = -1}), "option \"memory_limit\": expected at least 0, found -1");
  EXPECT_EQ(error({.alignment = 100}), "option \"alignment\": expected 0 or a power of two up to 4096, found 100");
  EXPECT_EQ(error({.allocator = "prealloc"}),
            "prealloc: how much is free is not known here, so it has no fraction; set \"initial_mb\"");
  EXPECT_EQ(error({}), "");
}

TEST(AllocatorOptions, AlignmentBeyondTheSystemsIsAnError) {
  HostSource source(64);
  EXPECT_EQ(Allocator::Create({.alignment = 128}, &source).status(),
            absl::InvalidArgumentError(
                "option \"alignment\": expected at most what the system memory of cpu has, 64, found 128"));
}

}  // namespace
}  // namespace snug::core::memory
