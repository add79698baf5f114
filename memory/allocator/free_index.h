// The free blocks of a pool, found by best fit. Logarithmic; takes memory only while the number of free blocks grows
// beyond what it was before, so that a warm pool allocates nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/allocator/block.h"

namespace snug::memory {

class FreeIndex {
 public:
  void Add(Block* block) {
    const FreeKey key{block->bytes, block->position(), block};
    if (spare_.empty()) {
      block->free_place = set_.insert(key).first;
    } else {
      FreeSet::node_type node = std::move(spare_.back());
      spare_.pop_back();
      node.value() = key;
      block->free_place = set_.insert(std::move(node)).position;
    }
    bytes_ += block->bytes;
  }

  void Remove(Block* block) {
    bytes_ -= block->bytes;
    spare_.push_back(set_.extract(block->free_place));
  }

  // The smallest block of at least `bytes`, the first of several; null: none. It stays in.
  Block* BestFit(int64_t bytes) const {
    const auto found = set_.lower_bound(FreeKey{bytes, -1, nullptr});
    return found == set_.end() ? nullptr : found->block;
  }

  int64_t bytes() const { return bytes_; }
  int64_t largest_bytes() const { return set_.empty() ? 0 : set_.rbegin()->bytes; }

 private:
  FreeSet set_;
  std::vector<FreeSet::node_type> spare_;
  int64_t bytes_ = 0;
};

}  // namespace snug::memory
