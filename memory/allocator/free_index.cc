#include "memory/allocator/free_index.h"

#include <bit>
#include <utility>

namespace snug::core::memory {

size_t FreeIndex::BinOf(int64_t bytes) {
  const auto value = static_cast<uint64_t>(bytes);
  if (value < 4) return value;
  const auto power = static_cast<size_t>(std::bit_width(value)) - 1;
  return 4 * power + ((value >> (power - 2)) & 3);
}

size_t FreeIndex::NotEmptyFrom(size_t bin) const {
  if (bin >= kBins) return kBins;
  uint64_t word = not_empty_[bin / 64] & (~uint64_t{0} << (bin % 64));
  for (size_t i = bin / 64;; word = not_empty_[i]) {
    if (word != 0) return 64 * i + static_cast<size_t>(std::countr_zero(word));
    if (++i == not_empty_.size()) return kBins;
  }
}

void FreeIndex::Add(Block* block) {
  const FreeKey key{block->bytes, block->position(), block};
  const size_t bin = BinOf(block->bytes);
  if (spare_.empty()) {
    block->free_place = bins_[bin].insert(key).first;
  } else {
    FreeSet::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.value() = key;
    block->free_place = bins_[bin].insert(std::move(node)).position;
  }
  not_empty_[bin / 64] |= uint64_t{1} << (bin % 64);
  bytes_ += block->bytes;
}

void FreeIndex::Remove(Block* block) {
  const size_t bin = BinOf(block->bytes);
  spare_.push_back(bins_[bin].extract(block->free_place));
  if (bins_[bin].empty()) not_empty_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  bytes_ -= block->bytes;
}

Block* FreeIndex::BestFit(int64_t bytes) const {
  const size_t bin = BinOf(bytes);
  const auto found = bins_[bin].lower_bound(FreeKey{bytes, -1, nullptr});
  if (found != bins_[bin].end()) return found->block;
  const size_t next = NotEmptyFrom(bin + 1);
  return next == kBins ? nullptr : bins_[next].begin()->block;
}

int64_t FreeIndex::largest_bytes() const {
  for (size_t i = not_empty_.size(); i-- > 0;) {
    if (not_empty_[i] != 0)
      return bins_[64 * i + static_cast<size_t>(std::bit_width(not_empty_[i])) - 1].rbegin()->bytes;
  }
  return 0;
}

}  // namespace snug::core::memory
