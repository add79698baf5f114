// Alloc, Free, Used by place.
#include "memory/allocator/places.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "memory/allocator/host_source.h"
#include "memory/allocator/simulate.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kKiB = 1024;

TEST(AllocatorPlaces, AllocateUseAndFreeOnTheHost) {
  Places places({.allocator = "buddy", .buddy_initial_mb = 1});
  for (const Place& place : {Place::Cpu(), Place::Pinned()}) {
    SCOPED_TRACE(ToString(place));
    EXPECT_EQ(places.Used(place), 0);
    const absl::StatusOr<void*> p = places.Alloc(place, 4 * kKiB);
    ASSERT_TRUE(p.ok()) << p.status();
    std::memset(*p, 1, 4 * kKiB);
    EXPECT_EQ(places.Used(place), 4 * kKiB);
    EXPECT_TRUE(places.Free(place, *p).ok());
    EXPECT_EQ(places.Used(place), 0);
  }
}

TEST(AllocatorPlaces, PlacesAreCountedApart) {
  Places places;
  const absl::StatusOr<void*> a = places.Alloc(Place::Cpu(), 100);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(places.Used(Place::Cpu()), 100);
  EXPECT_EQ(places.Used(Place::Pinned()), 0);
}

TEST(AllocatorPlaces, FreeingThroughTheWrongPlaceNamesTheRightOne) {
  Places places;
  const absl::StatusOr<void*> p = places.Alloc(Place::Pinned(), 100);
  ASSERT_TRUE(p.ok());
  const absl::Status status = places.Free(Place::Cpu(), *p);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("is a block of pinned, but was freed as one of cpu"), absl::string_view::npos)
      << status;
  EXPECT_EQ(places.Used(Place::Pinned()), 100);
  EXPECT_TRUE(places.Free(Place::Pinned(), *p).ok());
}

TEST(AllocatorPlaces, ForeignPointersAndSecondFreesAreErrors) {
  Places places;
  int foreign = 0;
  EXPECT_EQ(places.Free(Place::Cpu(), &foreign).code(), absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<void*> p = places.Alloc(Place::Cpu(), 100);
  ASSERT_TRUE(p.ok());
  EXPECT_TRUE(places.Free(Place::Cpu(), *p).ok());
  EXPECT_EQ(places.Free(Place::Cpu(), *p).code(), absl::StatusCode::kInvalidArgument);
}

TEST(AllocatorPlaces, ZeroBytesAreNullAndFreeToFree) {
  Places places;
  const absl::StatusOr<void*> p = places.Alloc(Place::Cpu(), 0);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(*p, nullptr);
  EXPECT_TRUE(places.Free(Place::Cpu(), *p).ok());
}

TEST(AllocatorPlaces, WithoutABackendADeviceIsAClearError) {
  Places places;
  EXPECT_EQ(places.Alloc(Place::Cuda(0), 100).status(),
            absl::FailedPreconditionError("no memory on cuda:0: this program has no backend for it"));
  EXPECT_EQ(places.Used(Place::Cuda(0)), 0);
  EXPECT_EQ(places.Alloc({PlaceKind::kCpu, 1}, 100).status().code(), absl::StatusCode::kNotFound);
}

TEST(AllocatorPlaces, ABackendAddsItsDevicesOneAllocatorEach) {
  Places places({.allocator = "prealloc", .fraction_of_device_memory = 0.5});
  int made = 0;
  places.Support(PlaceKind::kCuda, [&made](const Place& place) -> absl::StatusOr<Places::Device> {
    if (place.device > 1) return absl::NotFoundError("there are 2 devices");
    ++made;
    return Places::Device{std::make_unique<VirtualSource>(place, 1000 * kKiB, 256), nullptr};
  });
  EXPECT_EQ(made, 0);
  const absl::StatusOr<void*> p = places.Alloc(Place::Cuda(0), 100);
  ASSERT_TRUE(p.ok());
  ASSERT_TRUE(places.Alloc(Place::Cuda(0), 100).ok());
  EXPECT_EQ(made, 1);
  EXPECT_EQ(places.Used(Place::Cuda(0)), 200);
  EXPECT_EQ(places.Free(Place::Cuda(1), *p).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(places.Alloc(Place::Cuda(2), 1).status(), absl::NotFoundError("there are 2 devices"));
}

TEST(AllocatorPlaces, OptionsAreCheckedAsAPlaceIsFirstUsed) {
  Places places({.allocator = "slab"});
  EXPECT_EQ(places.Alloc(Place::Cpu(), 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AllocatorSources, HostMemoryIsAlignedAndWritable) {
  HostSource source(256);
  for (const int64_t bytes : {int64_t{1}, 1000 * kKiB, 1024 * kKiB, 20'000 * kKiB}) {
    const absl::StatusOr<std::byte*> p = source.Allocate(bytes);
    ASSERT_TRUE(p.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*p) % 256, 0u);
    (*p)[0] = (*p)[bytes - 1] = std::byte{1};
    source.Free(*p, bytes);
  }
}

TEST(AllocatorSources, MoreThanTheMachineHasIsRefusedBeforeTheSystemIsAsked) {
  HostSource source;
  const absl::Status status = source.Allocate(int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("bytes available"), absl::string_view::npos) << status;
}

TEST(AllocatorSources, PinnedMemoryCountsAgainstWhatMayBeLocked) {
  PinnedSource source;
  const int64_t before = source.available_bytes();
  const absl::StatusOr<std::byte*> p = source.Allocate(64 * kKiB);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*p) % 4096, 0u);
  std::memset(*p, 1, 64 * kKiB);
  EXPECT_LE(source.available_bytes(), before);
  source.Free(*p, 64 * kKiB);
  const absl::Status status = source.Allocate(int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace snug::core::memory
