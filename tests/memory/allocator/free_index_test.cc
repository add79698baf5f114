#include "memory/allocator/free_index.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <tuple>
#include <vector>

namespace snug::core::memory {
namespace {

// Beside a plain list that is searched from end to end.
TEST(AllocatorFreeIndex, FindsWhatASearchOfAllFinds) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::byte memory{};
    Chunk chunk{.base = &memory};
    std::deque<Chunk> chunks;  // one for each block: its position is all that counts
    std::deque<Block> blocks;
    std::vector<Block*> free;
    FreeIndex index;
    for (int i = 0; i < 2000; ++i) {
      if (free.empty() || random() % 2 == 0) {
        chunks.push_back(chunk);
        chunks.back().position = static_cast<int64_t>(random() % 1'000'000) * 1000 + i;
        Block& block = blocks.emplace_back();
        block.start = &memory;
        block.chunk = &chunks.back();
        block.bytes = 1 + static_cast<int64_t>((uint64_t{1} << (random() % 40)) + random() % 5);
        if (random() % 4 == 0) block.bytes = 1 + static_cast<int64_t>(random() % 9);
        index.Add(&block);
        free.push_back(&block);
      } else {
        std::swap(free[random() % free.size()], free.back());
        index.Remove(free.back());
        free.pop_back();
      }
      const int64_t asked = random() % 2 == 0 ? 1 + random() % 10 : int64_t{1} << (random() % 41);
      const Block* best = nullptr;
      int64_t sum = 0, largest = 0;
      for (const Block* block : free) {
        sum += block->bytes;
        largest = std::max(largest, block->bytes);
        if (block->bytes < asked) continue;
        const auto key = [](const Block* b) { return std::tuple(b->bytes, b->position()); };
        if (best == nullptr || key(block) < key(best)) best = block;
      }
      ASSERT_EQ(index.BestFit(asked), best) << "seed " << seed << ", operation " << i;
      ASSERT_EQ(index.bytes(), sum);
      ASSERT_EQ(index.largest_bytes(), largest);
    }
  }
}

}  // namespace
}  // namespace snug::core::memory
