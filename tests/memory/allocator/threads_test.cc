// Several threads, one allocator: nothing is mixed up, limits hold, and a request waits for others but not for itself.
#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "memory/allocator/allocator.h"
#include "memory/allocator/host_source.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

template <typename Body>
void InThreads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(AllocatorThreads, AThousandThreadsKeepTheirBytes) {
  HostSource source(256);
  for (const char* name : {"auto_growth", "prealloc", "buddy", "system"}) {
    SCOPED_TRACE(name);
    const auto allocator =
        MakeAllocator({.allocator = name, .initial_mb = 64, .buddy_initial_mb = 4, .auto_growth_chunk_mb = 1}, &source);
    std::atomic<int> wrong = 0;
    InThreads(1024, [&](int thread) {
      std::mt19937 random(static_cast<uint32_t>(thread));
      std::vector<std::pair<unsigned char*, size_t>> blocks;
      for (int i = 0; i < 128; ++i) {
        const size_t bytes = 1 + random() % 600;
        auto* block = static_cast<unsigned char*>(Take(allocator.get(), static_cast<int64_t>(bytes)));
        std::fill_n(block, bytes, static_cast<unsigned char>(thread));
        blocks.emplace_back(block, bytes);
      }
      for (const auto& [block, size] : blocks) {
        const auto bytes = static_cast<int64_t>(size);
        wrong += std::count(block, block + bytes, static_cast<unsigned char>(thread)) != bytes;
        wrong += !allocator->Free(block).ok();
      }
    });
    EXPECT_EQ(wrong, 0);
    const AllocatorStatistics s = allocator->statistics();
    EXPECT_EQ(s.allocations, 1024 * 128);
    EXPECT_EQ(s.frees, 1024 * 128);
    EXPECT_EQ(s.used_bytes, 0);
    EXPECT_TRUE(allocator->Check().ok());
  }
}

TEST(AllocatorThreads, BlocksMayBeFreedByOtherThreads) {
  HostSource source(256);
  const auto allocator = MakeAllocator({}, &source);
  std::vector<std::atomic<void*>> slots(64);
  InThreads(8, [&](int thread) {
    std::mt19937 random(static_cast<uint32_t>(thread));
    for (int i = 0; i < 5000; ++i) {
      void* block = Take(allocator.get(), 1 + static_cast<int64_t>(random() % 5000));
      block = slots[random() % slots.size()].exchange(block);
      EXPECT_TRUE(allocator->Free(block).ok());
      if (i % 500 == 0) {
        allocator->ReleaseIdle();
        EXPECT_GE(allocator->statistics().reserved_bytes, 0);
        EXPECT_TRUE(allocator->Check().ok());
      }
    }
  });
  for (auto& slot : slots) EXPECT_TRUE(allocator->Free(slot.load()).ok());
  EXPECT_EQ(allocator->used_bytes(), 0);
}

TEST(AllocatorThreads, TheLimitIsNeverPassed) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.memory_limit = 100 * 256, .retry_ms = 0}, device.get());
  std::atomic<int> live = 0, refused = 0;
  std::atomic<bool> passed = false;
  InThreads(8, [&](int) {
    for (int i = 0; i < 3000; ++i) {
      std::vector<void*> blocks;
      for (int n = 0; n < 30; ++n) {
        void* block = Take(allocator.get(), 256);
        if (block == nullptr) {
          ++refused;
          break;
        }
        blocks.push_back(block);
        if (++live > 100) passed = true;
      }
      for (void* block : blocks) {
        --live;
        EXPECT_TRUE(allocator->Free(block).ok());
      }
    }
  });
  EXPECT_FALSE(passed);
  EXPECT_LE(allocator->statistics().peak_reserved_bytes, 100 * 256);
}

// Four threads that each take all there is and keep it for 40 ms: how many of them got it. Whoever is refused has
// waited for as long as it may, however slow the machine is.
int HowManyGetThePool(int64_t retry_ms) {
  const auto device = PretendedDevice(1024);
  const auto allocator = MakeAllocator({.retry_ms = retry_ms}, device.get());
  std::atomic<int> succeeded = 0;
  InThreads(4, [&](int) {
    const auto start = std::chrono::steady_clock::now();
    void* all = Take(allocator.get(), 1024);
    if (all == nullptr) {
      EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(retry_ms));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    EXPECT_TRUE(allocator->Free(all).ok());
    ++succeeded;
  });
  return succeeded;
}

TEST(AllocatorRetry, FourThreadsTakeTurnsWithThePool) { EXPECT_EQ(HowManyGetThePool(3'600'000), 4); }

// Three turns of 40 ms pass within the limit, unless the machine is busy.
TEST(AllocatorRetry, NobodyIsRefusedBeforeTheLimit) { EXPECT_GE(HowManyGetThePool(180), 1); }

TEST(AllocatorRetry, EndsAtItsTimeLimit) {
  const auto device = PretendedDevice(1024);
  const auto allocator = MakeAllocator({.retry_ms = 50}, device.get());
  void* all = Take(allocator.get(), 1024);  // by this thread, and not freed
  InThreads(1, [&](int) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(allocator->Allocate(1024).status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
  });
  EXPECT_TRUE(allocator->Free(all).ok());
}

TEST(AllocatorRetry, AThreadDoesNotWaitForItself) {
  const auto device = PretendedDevice(1024);
  const auto allocator = MakeAllocator({.retry_ms = 3'600'000}, device.get());
  ASSERT_NE(Take(allocator.get(), 1024), nullptr);
  EXPECT_EQ(Take(allocator.get(), 1024), nullptr);  // at once, not in an hour
}

TEST(AllocatorRetry, KeepsTheTextOfTheLastError) {
  const auto device = PretendedDevice(-1);
  const auto allocator = MakeAllocator({.allocator = "system", .retry_ms = 3'600'000}, device.get());
  void* first = Take(allocator.get(), 1024);
  void* second = Take(allocator.get(), 1024);
  device->set_failing(true);
  std::thread waiting([&] {
    // Refused, refused again after each of the two frees; then nobody is left to wait for.
    const absl::Status status = allocator->Allocate(1024).status();
    EXPECT_NE(status.message().find("\n  failure number 3\n"), absl::string_view::npos) << status;
  });
  const auto wait_for_failures = [&device](int count) {
    while (device->failures() < count) std::this_thread::yield();
  };
  wait_for_failures(1);
  EXPECT_TRUE(allocator->Free(first).ok());
  wait_for_failures(2);
  EXPECT_TRUE(allocator->Free(second).ok());
  waiting.join();
  EXPECT_EQ(device->failures(), 3);
}

}  // namespace
}  // namespace snug::core::memory
