#include "memory/allocator/live_table.h"

#include <utility>

namespace snug::core::memory {

size_t LiveTable::HomeOf(const void* address) const {
  uint64_t hash = reinterpret_cast<uint64_t>(address) * 0x9e3779b97f4a7c15;
  hash ^= hash >> 32;
  return static_cast<size_t>(hash) & (slots_.size() - 1);
}

void LiveTable::Add(const LiveBlock& block) {
  if (2 * (size_ + 1) > slots_.size()) Grow();
  size_t at = HomeOf(block.address);
  while (slots_[at].address != nullptr) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = block;
  ++size_;
}

LiveBlock* LiveTable::Find(const void* address) {
  for (size_t at = HomeOf(address);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].address == address) return &slots_[at];
    if (slots_[at].address == nullptr) return nullptr;
  }
}

void LiveTable::Remove(LiveBlock* block) {
  const size_t mask = slots_.size() - 1;
  auto hole = static_cast<size_t>(block - slots_.data());
  // A search stops at the first empty slot, so entries behind the hole that were once pushed past it move up.
  for (size_t at = (hole + 1) & mask; slots_[at].address != nullptr; at = (at + 1) & mask) {
    const size_t home = HomeOf(slots_[at].address);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole].address = nullptr;
  --size_;
}

void LiveTable::Grow() {
  std::vector<LiveBlock> old = std::exchange(slots_, std::vector<LiveBlock>(2 * slots_.size()));
  for (const LiveBlock& block : old) {
    if (block.address == nullptr) continue;
    size_t at = HomeOf(block.address);
    while (slots_[at].address != nullptr) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = block;
  }
}

}  // namespace snug::core::memory
