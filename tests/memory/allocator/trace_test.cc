// Long random sequences of allocations and frees, each step beside a model that knows nothing but addresses and sizes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "memory/allocator/allocator.h"
#include "memory/allocator/host_source.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

// What is in use, by address.
class Model {
 public:
  // Empty: the block is where one may be.
  std::string Add(const BookedSource& source, const void* address, int64_t bytes, int64_t alignment) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (at % static_cast<uintptr_t>(alignment) != 0) return "not aligned";
    const auto next = blocks_.lower_bound(at);
    if (next != blocks_.end() && next->first < at + static_cast<uintptr_t>(bytes)) return "lies over the next block";
    if (next != blocks_.begin() && std::prev(next)->first + static_cast<uintptr_t>(std::prev(next)->second) > at) {
      return "lies over the block before";
    }
    auto chunk = source.chunks().upper_bound(const_cast<std::byte*>(static_cast<const std::byte*>(address)));
    if (chunk == source.chunks().begin()) return "lies in no chunk";
    --chunk;
    if (static_cast<const std::byte*>(address) + bytes > chunk->first + chunk->second) return "lies in no chunk";
    blocks_[at] = bytes;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return "";
  }
  void Remove(const void* address) {
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
    used_ -= found->second;
    blocks_.erase(found);
  }

  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }
  size_t blocks() const { return blocks_.size(); }

 private:
  std::map<uintptr_t, int64_t> blocks_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

int64_t ReservedBytes(const BookedSource& source) {
  int64_t bytes = 0;
  for (const auto& [address, size] : source.chunks()) bytes += size;
  return bytes;
}

// Mostly small blocks, some of a megabyte; phases of growing and of shrinking.
void RunTrace(const std::string& name, uint32_t seed, int operations) {
  SCOPED_TRACE(name + ", seed " + std::to_string(seed));
  const auto device = PretendedDevice(-1, seed % 2 == 0 ? Place::Cpu() : Place::Cuda(0));
  const auto allocator = MakeAllocator({.allocator = name,
                                        .initial_mb = 4,
                                        .reallocate_mb = 1 + seed % 3,
                                        .buddy_initial_mb = 2,
                                        .buddy_max_pool_mb = 3,
                                        .auto_growth_chunk_mb = seed % 3},
                                       device.get());
  const int64_t alignment = seed % 2 == 1 || name == "auto_growth" ? 256 : 64;
  std::mt19937 random(seed);
  Model model;
  std::vector<void*> live;
  for (int i = 0; i < operations; ++i) {
    const uint32_t growing = (i / 5000) % 2 == 0 ? 55 : 45;
    if (live.empty() || random() % 100 < growing) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % (1u << (random() % 23)));
      void* address = Take(allocator.get(), bytes);
      ASSERT_NE(address, nullptr);
      ASSERT_EQ(model.Add(*device, address, bytes, alignment), "") << "operation " << i;
      live.push_back(address);
    } else {
      std::swap(live[random() % live.size()], live.back());
      model.Remove(live.back());
      ASSERT_TRUE(allocator->Free(live.back()).ok());
      live.pop_back();
    }
    if (random() % 64 == 0) {
      const AllocatorStatistics s = allocator->statistics();
      ASSERT_EQ(s.used_bytes, model.used());
      ASSERT_EQ(s.peak_used_bytes, model.peak());
      ASSERT_EQ(s.live_blocks, static_cast<int64_t>(model.blocks()));
      ASSERT_LE(s.block_bytes, s.reserved_bytes);
    }
    if (random() % 20'000 == 0) {
      allocator->ReleaseIdle();
      ASSERT_TRUE(allocator->Check().ok());
      ASSERT_EQ(allocator->statistics().reserved_bytes, ReservedBytes(*device));
    }
  }
  for (void* address : live) ASSERT_TRUE(allocator->Free(address).ok());
  const AllocatorStatistics s = allocator->statistics();
  EXPECT_EQ(s.used_bytes, 0);
  EXPECT_EQ(s.block_bytes, 0);
  EXPECT_EQ(s.direct_bytes, 0);
  EXPECT_EQ(s.allocations, s.frees);
  EXPECT_EQ(s.system_allocations, static_cast<int64_t>(device->sizes().size()));
  EXPECT_EQ(allocator->BlockMap().size(), device->chunks().size());  // one free block each
  allocator->ReleaseIdle();
  EXPECT_TRUE(device->chunks().empty());
  EXPECT_EQ(allocator->statistics().reserved_bytes, 0);
  EXPECT_EQ(device->wrong_frees(), 0);
}

class AllocatorTrace : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Allocator, AllocatorTrace, ::testing::Values("auto_growth", "prealloc", "buddy", "system"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AllocatorTrace, AMillionOperationsAgreeWithTheModel) { RunTrace(GetParam(), 1, 1'000'000); }

TEST_P(AllocatorTrace, TwentySeedsAgreeWithTheModel) {
  for (uint32_t seed = 0; seed < 20; ++seed) RunTrace(GetParam(), seed, 20'000);
}

TEST_P(AllocatorTrace, CampaignTwentyMillionOperationsAgreeWithTheModel) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "set SNUG_CAMPAIGN to run it";
  for (uint32_t seed = 0; seed < 20; ++seed) RunTrace(GetParam(), seed, 1'000'000);
}

// Over real memory, every block filled when it is taken and looked at when it is freed.
TEST_P(AllocatorTrace, BlocksKeepTheirBytes) {
  BookedSource source(std::make_unique<HostSource>(256));
  const auto allocator =
      MakeAllocator({.allocator = GetParam(), .initial_mb = 4, .buddy_initial_mb = 2, .buddy_max_pool_mb = 3}, &source);
  struct Value {
    uint64_t* words;
    int64_t count;
    uint64_t pattern;
  };
  std::vector<Value> live;
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    if (live.empty() || random() % 100 < (live.size() < 300 ? 60 : 40)) {
      const auto count = static_cast<int64_t>(1 + random() % (1u << (random() % 12)));
      auto* words = static_cast<uint64_t*>(Take(allocator.get(), 8 * count));
      ASSERT_NE(words, nullptr);
      live.push_back({words, count, random()});
      std::fill_n(words, count, live.back().pattern);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const Value value = live.back();
      live.pop_back();
      ASSERT_EQ(std::count(value.words, value.words + value.count, value.pattern), value.count);
      ASSERT_TRUE(allocator->Free(value.words).ok());
    }
  }
}

}  // namespace
}  // namespace snug::core::memory
