// The free blocks of a pool, found by best fit. Bins of nearly equal sizes, four to each power of two, with a bit for
// each that is not empty: a search seldom looks at more than a few blocks. Within a bin a search tree keeps the worst
// case logarithmic. Takes memory only while the number of free blocks grows beyond what it was before, so that a warm
// pool allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/allocator/block.h"

namespace snug::memory {

class FreeIndex {
 public:
  void Add(Block* block);
  void Remove(Block* block);

  // The smallest block of at least `bytes`, the first of several; null: none. It stays in.
  Block* BestFit(int64_t bytes) const;

  int64_t bytes() const { return bytes_; }
  int64_t largest_bytes() const;

 private:
  static constexpr size_t kBins = 256;

  static size_t BinOf(int64_t bytes);     // larger blocks are never in lower bins
  size_t NotEmptyFrom(size_t bin) const;  // kBins: none

  std::array<FreeSet, kBins> bins_;
  std::array<uint64_t, kBins / 64> not_empty_ = {};
  std::vector<FreeSet::node_type> spare_;
  int64_t bytes_ = 0;
};

}  // namespace snug::memory
