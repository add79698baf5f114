#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_arena.h"
#include "memory/allocator/cuda_places.h"
#include "tests/cuda/fake_device.h"

namespace snug::core::memory {
namespace {

using cuda::CudaArena;
using cuda::CudaDevice;
using cuda::CudaStream;
using cuda::FakeCuda;
using cuda::GrowingCudaArena;
using cuda::Says;

constexpr int64_t kMiB = 1 << 20;

TEST(CudaArena, IsOneBlock) {
  FakeCuda fake({.device_bytes = 10 * kMiB});
  const auto device = OpenDevice(fake);
  {
    const auto arena = CudaArena::Create(device, 6 * kMiB);
    ASSERT_TRUE(arena.ok()) << arena.status();
    EXPECT_TRUE(fake.OnDevice((*arena)->data()));
    EXPECT_EQ(fake.used_bytes(), 6 * kMiB);
    const absl::Status refused = CudaArena::Create(device, 6 * kMiB).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(Says(refused, "an arena of 6291456 bytes: cuda:0 has 4194304 of its 10485760 bytes free")) << refused;
    EXPECT_EQ(CudaArena::Create(device, 0).value()->data(), nullptr);
  }
  EXPECT_EQ(fake.used_bytes(), 0);
}

TEST(GrowingCudaArena, GrowsInPlaceAndKeepsWhatItHolds) {
  FakeCuda fake({.device_bytes = 10 * kMiB});
  const auto device = OpenDevice(fake);
  const auto arena = GrowingCudaArena::Create(device, 64 * kMiB).value();
  EXPECT_EQ(fake.used_bytes(), 0);
  ASSERT_TRUE(arena->GrowTo(1).ok());
  EXPECT_EQ(arena->size_bytes(), 2 * kMiB);  // rounded up to the granularity
  std::byte* const data = arena->data();
  data[0] = std::byte{5};
  ASSERT_TRUE(arena->GrowTo(2 * kMiB).ok());
  ASSERT_TRUE(arena->GrowTo(5 * kMiB).ok());
  EXPECT_EQ(arena->data(), data);
  EXPECT_EQ(arena->size_bytes(), 6 * kMiB);
  EXPECT_EQ(fake.used_bytes(), 6 * kMiB);
  const absl::Status refused = arena->GrowTo(11 * kMiB);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(Says(refused, "growing an arena on cuda:0 from 6291456 by 6291456 bytes")) << refused;
  EXPECT_EQ(arena->size_bytes(), 6 * kMiB);
  EXPECT_TRUE(Says(arena->GrowTo(65 * kMiB), "an arena with addresses for 67108864 bytes cannot grow to 68157440"));
  EXPECT_EQ(data[0], std::byte{5});
}

// Takes and frees on two streams with an allocator.
absl::Status UseAllocator(const FakeCuda& fake, const AllocatorOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<CudaDevice> device, CudaDevice::Open(fake.api(), 0));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> a, CudaStream::Create(device));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> b, CudaStream::Create(device));
  Places places(options);
  SupportCuda({device}, {{0, {a.get(), b.get()}}}, &places);
  SNUG_ASSIGN_OR_RETURN(void* const host, places.Alloc(Place::Pinned(), 1000));
  SNUG_ASSIGN_OR_RETURN(Allocator* const allocator, places.allocator(Place::Cuda(0)));
  std::vector<void*> blocks;
  for (const int64_t bytes : {100, 70'000, 2'000'000, 256}) {
    SNUG_ASSIGN_OR_RETURN(void* const block, allocator->Allocate(bytes, {.stream = 0}));
    blocks.push_back(block);
    SNUG_RETURN_IF_ERROR(a->Clear(static_cast<std::byte*>(block), bytes));
  }
  SNUG_RETURN_IF_ERROR(allocator->RecordStream(blocks[1], 1));
  for (void* const block : blocks) SNUG_RETURN_IF_ERROR(allocator->Free(block));
  SNUG_RETURN_IF_ERROR(allocator->Allocate(1'000'000, {.stream = 1}));
  SNUG_RETURN_IF_ERROR(places.Free(Place::Pinned(), host));
  return allocator->Check();
}

TEST(CudaAllocators, EachServesADevice) {
  for (const char* name : {"auto_growth", "prealloc", "buddy", "system"}) {
    FakeCuda fake({.device_bytes = 24 * kMiB});  // prealloc takes most of it each time
    const absl::Status status = UseAllocator(fake, {.allocator = name, .buddy_initial_mb = 4, .retry_ms = 0});
    EXPECT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_EQ(fake.Leaks(), "") << name;
  }
}

TEST(CudaAllocators, AFailureAtAnyCallLeavesNothingBehind) {
  for (const char* name : {"auto_growth", "prealloc", "buddy", "system"}) {
    const AllocatorOptions options{.allocator = name, .buddy_initial_mb = 4, .retry_ms = 0};
    FakeCuda fake({.device_bytes = 24 * kMiB});  // prealloc takes most of it each time
    ASSERT_TRUE(UseAllocator(fake, options).ok());
    const auto calls = static_cast<int64_t>(fake.calls().size());
    int64_t reported = 0;
    for (int64_t n = 0; n < calls; ++n) {
      fake.ClearCalls();
      fake.FailCall(n);
      reported += UseAllocator(fake, options).ok() ? 0 : 1;
      EXPECT_TRUE(fake.has_failed());
      EXPECT_EQ(fake.Leaks(), "") << name << ": " << fake.calls()[static_cast<size_t>(n)];
    }
    EXPECT_GT(reported, 10) << name;
  }
}

TEST(CudaAllocators, PreallocTakesItsShareOfWhatIsFree) {
  FakeCuda fake({.device_bytes = 100 * kMiB});
  const auto device = OpenDevice(fake);
  const auto other = CudaArena::Create(device, 20 * kMiB).value();  // belongs to another program
  Places places({.allocator = "prealloc", .fraction_of_device_memory = 0.5});
  SupportCuda({device}, {}, &places);
  ASSERT_TRUE(places.Alloc(Place::Cuda(0), 1).ok());
  EXPECT_NEAR(static_cast<double>(fake.used_bytes()), 60.0 * kMiB, 4096);
}

TEST(CudaAllocators, TheLimitHoldsAndTheReportSaysWhoHoldsWhat) {
  FakeCuda fake({.device_bytes = 100 * kMiB});
  const auto device = OpenDevice(fake);
  Places places({.allocator = "auto_growth", .memory_limit = 8'000'000, .retry_ms = 0});
  SupportCuda({device}, {}, &places);
  ASSERT_TRUE(places.Alloc(Place::Cuda(0), 6'000'000, {.name = "conv1"}).ok());
  const absl::Status refused = places.Alloc(Place::Cuda(0), 3'000'000, {.name = "conv2"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  for (const char* fact : {"cuda:0", "conv1", "conv2", "3000000", "8000000"}) {
    EXPECT_TRUE(Says(refused, fact)) << fact << " is not in: " << refused;
  }
}

TEST(CudaAllocators, WhatAStreamStillUsesIsNotHandedOutAgain) {
  FakeCuda fake;
  const auto device = OpenDevice(fake);
  const auto a = CudaStream::Create(device).value();
  const auto b = CudaStream::Create(device).value();
  Places places({.allocator = "auto_growth", .retry_ms = 0});
  SupportCuda({device}, {{0, {a.get(), b.get()}}}, &places);
  Allocator* const allocator = places.allocator(Place::Cuda(0)).value();
  auto* const block = static_cast<std::byte*>(allocator->Allocate(1000, {.stream = 0}).value());
  ASSERT_TRUE(b->Clear(block, 1000).ok());
  ASSERT_TRUE(allocator->RecordStream(block, 1).ok());
  fake.ClearCalls();
  ASSERT_TRUE(allocator->Free(block).ok());
  EXPECT_EQ(fake.Count("cuEventRecord"), 1);
  EXPECT_EQ(fake.Count("cuStreamSynchronize"), 0) << "freeing waits for nobody";
  EXPECT_NE(allocator->Allocate(1000, {.stream = 0}).value(), block) << "stream 1 has not come to it";
  ASSERT_TRUE(b->Synchronize().ok());
  EXPECT_EQ(allocator->Allocate(1000, {.stream = 0}).value(), block);
}

TEST(CudaAllocators, APlaceThatIsNotOpenIsNamed) {
  FakeCuda fake({.devices = 2});
  Places places;
  SupportCuda({OpenDevice(fake)}, {}, &places);
  const absl::Status status = places.Alloc(Place::Cuda(1), 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Says(status, "no memory on cuda:1: open are cuda:0")) << status;
}

}  // namespace
}  // namespace snug::core::memory
