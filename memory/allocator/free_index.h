// Finds the best fit among a pool's free blocks. Bins hold nearly equal sizes, four to each power of two, and a bit
// tells which are not empty: a search seldom looks at more than a few blocks. A search tree within each bin keeps the
// worst case logarithmic. It takes memory only while the number of free blocks reaches a new high, so a warm pool
// allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/allocator/block.h"

namespace snug::core::memory {

class FreeIndex {
 public:
  void Add(Block* block);
  void Remove(Block* block);

  // Returns the smallest block of at least `bytes`, or null. The block stays in the index. Of equal blocks the first in
  // FreeKey's order is returned.
  Block* BestFit(int64_t bytes) const;

  int64_t bytes() const { return bytes_; }
  int64_t largest_bytes() const;

 private:
  static constexpr size_t kBins = 256;

  static size_t BinOf(int64_t bytes);     // grows with `bytes`
  size_t NotEmptyFrom(size_t bin) const;  // kBins when all of them are empty

  std::array<FreeSet, kBins> bins_;
  std::array<uint64_t, kBins / 64> not_empty_ = {};
  std::vector<FreeSet::node_type> spare_;
  int64_t bytes_ = 0;
};

}  // namespace snug::core::memory
