// How blocks are chosen, split and merged, and what a stray write over a header does.
#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "memory/allocator/allocator.h"
#include "memory/allocator/block_pool.h"
#include "memory/allocator/host_source.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

// (offset, bytes, free) of all blocks.
using Row = std::tuple<int64_t, int64_t, bool>;
std::vector<Row> Rows(const BlockPool& pool) {
  std::vector<Row> rows;
  pool.Visit([&rows](const Block& b) { rows.emplace_back(b.start - b.chunk->base, b.bytes, b.free); });
  return rows;
}

class AllocatorPool : public ::testing::Test {
 protected:
  // One chunk of 1000 bytes, alignment 1.
  AllocatorPool()
      : device_(PretendedDevice(-1)),
        source_(device_.get(), 0),
        pool_({.alignment = 1, .growth = {.first_bytes = 1000, .next_bytes = 1000}}, &source_) {}

  Block* Take(int64_t bytes) {
    const absl::StatusOr<Grant> grant = pool_.Take(bytes);
    EXPECT_TRUE(grant.ok());
    EXPECT_TRUE(pool_.Check().ok());
    return grant->block;
  }
  void Give(Block* block) {
    EXPECT_TRUE(pool_.Give(block).ok());
    EXPECT_TRUE(pool_.Check().ok());
  }
  static int64_t OffsetOf(const Block* block) { return block->start - block->chunk->base; }

  std::unique_ptr<BookedSource> device_;
  CountedSource source_;
  BlockPool pool_;
};

TEST_F(AllocatorPool, TakesTheBestFit) {
  Block* a = Take(80);
  Block* b = Take(60);
  Block* c = Take(90);
  EXPECT_EQ(OffsetOf(b), 80);
  EXPECT_EQ(OffsetOf(c), 140);
  Give(b);
  Block* d = Take(30);
  EXPECT_EQ(OffsetOf(d), 80);
  Give(d);
  b = Take(60);
  EXPECT_EQ(OffsetOf(b), 80);
  Give(a);
  Give(b);
  Block* e = Take(140);
  EXPECT_EQ(OffsetOf(e), 0);
  Give(e);
  Give(c);
  EXPECT_EQ(Rows(pool_), std::vector<Row>({{0, 1000, true}}));
}

TEST_F(AllocatorPool, OfEqualBlocksTakesTheFirst) {
  std::vector<Block*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(Take(100));
  Give(blocks[4]);
  Give(blocks[0]);
  Give(blocks[2]);
  EXPECT_EQ(OffsetOf(Take(100)), 0);
  EXPECT_EQ(OffsetOf(Take(100)), 200);
  EXPECT_EQ(OffsetOf(Take(100)), 400);
}

TEST_F(AllocatorPool, MergesWithBothNeighbours) {
  Block* a = Take(100);
  Block* b = Take(100);
  Block* c = Take(100);
  Block* d = Take(100);
  Give(a);
  Give(c);
  EXPECT_EQ(
      Rows(pool_),
      std::vector<Row>({{0, 100, true}, {100, 100, false}, {200, 100, true}, {300, 100, false}, {400, 600, true}}));
  Give(b);
  EXPECT_EQ(Rows(pool_), std::vector<Row>({{0, 300, true}, {300, 100, false}, {400, 600, true}}));
  Give(d);
  EXPECT_EQ(Rows(pool_), std::vector<Row>({{0, 1000, true}}));
}

TEST_F(AllocatorPool, OlderChunksComeFirstWhereverTheyLie) {
  Block* a = Take(1000);
  Block* b = Take(1000);
  Give(b);
  Give(a);
  EXPECT_EQ(Take(1000)->chunk->position, 0);
}

TEST_F(AllocatorPool, ReleasesIdleChunksOnly) {
  std::vector<Block*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(Take(1000));
  Block* part = Take(10);
  for (Block* block : blocks) Give(block);
  EXPECT_EQ(pool_.ReleaseIdle(), 5000);
  EXPECT_EQ(source_.reserved_bytes(), 1000);
  Give(part);
  EXPECT_EQ(pool_.ReleaseIdle(), 1000);
  EXPECT_TRUE(device_->chunks().empty());
  EXPECT_EQ(device_->wrong_frees(), 0);
}

TEST(AllocatorHeaders, LieBeforeEachBlockOnTheHost) {
  HostSource source(256);
  const auto allocator = MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 1}, &source);
  auto* a = static_cast<std::byte*>(Take(allocator.get(), 64));
  auto* b = static_cast<std::byte*>(Take(allocator.get(), 64));
  EXPECT_EQ(b - a, 64 + kBlockHeaderBytes);
}

TEST(AllocatorHeaders, LieInATableForADevice) {
  const auto device = PretendedDevice(-1);  // touching its memory would crash
  const auto allocator = MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 1}, device.get());
  auto* a = static_cast<std::byte*>(Take(allocator.get(), 256));
  auto* b = static_cast<std::byte*>(Take(allocator.get(), 256));
  EXPECT_EQ(b - a, 256);
}

TEST(AllocatorHeaders, ATailTooSmallForABlockStaysAndUsedIsExact) {
  const auto device = PretendedDevice(-1, Place::Cpu());
  const auto allocator = MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 1}, device.get());
  void* a = Take(allocator.get(), 1000);
  void* guard = Take(allocator.get(), 1000);
  ASSERT_TRUE(allocator->Free(a).ok());
  a = Take(allocator.get(), 950);  // 64 bytes remain: a header and nothing else
  EXPECT_EQ(allocator->BlockMap()[0].block_bytes, 1024 + kBlockHeaderBytes);
  EXPECT_EQ(allocator->used_bytes(), 1950);
  ASSERT_TRUE(allocator->Free(a).ok());
  EXPECT_EQ(allocator->used_bytes(), 1000);
  ASSERT_TRUE(allocator->Free(guard).ok());
  EXPECT_EQ(allocator->used_bytes(), 0);
  EXPECT_EQ(allocator->statistics().block_bytes, 0);
}

TEST(AllocatorHeaders, AWritePastTheEndIsFoundOut) {
  HostSource source(256);
  const auto allocator = MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 1}, &source);
  auto* a = static_cast<std::byte*>(Take(allocator.get(), 64));
  void* b = Take(allocator.get(), 64);
  std::memset(a, 0xff, 64);
  EXPECT_TRUE(allocator->Check().ok());
  std::memset(a, 0xff, 64 + 8);
  EXPECT_EQ(allocator->Check().code(), absl::StatusCode::kDataLoss);
  const absl::Status status = allocator->Free(b);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("somebody wrote past the end of the block before it"), absl::string_view::npos)
      << status;
}

TEST(AllocatorHeaders, EveryByteIsSealed) {
  HostSource source(256);
  const auto allocator = MakeAllocator({.allocator = "buddy", .buddy_initial_mb = 1}, &source);
  auto* address = static_cast<unsigned char*>(Take(allocator.get(), 64));
  int found = 0;
  for (int64_t i = 1; i <= kBlockHeaderBytes; ++i) {
    address[-i] ^= 0x40;
    found += !allocator->Check().ok();
    address[-i] ^= 0x40;
  }
  EXPECT_EQ(found, kBlockHeaderBytes);
  EXPECT_TRUE(allocator->Check().ok());
}

}  // namespace
}  // namespace snug::core::memory
