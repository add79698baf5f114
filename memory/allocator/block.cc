#include "memory/allocator/block.h"

#include <bit>
#include <new>

namespace snug::core::memory {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

uint64_t SealOf(const Block& block) {
  uint64_t hash = 0x536e7567;
  hash = Mix(hash, reinterpret_cast<uint64_t>(block.start));
  hash = Mix(hash, static_cast<uint64_t>(block.bytes));
  hash = Mix(hash, reinterpret_cast<uint64_t>(block.left));
  hash = Mix(hash, reinterpret_cast<uint64_t>(block.right));
  hash = Mix(hash, reinterpret_cast<uint64_t>(block.chunk));
  hash = Mix(hash, std::bit_cast<uint64_t>(block.free_place));
  return Mix(hash, block.free);
}

}  // namespace

Block* BlockStore::New(std::byte* start) {
  Block* block = nullptr;
  if (in_block_) {
    block = new (start) Block{};
  } else if (spare_.empty()) {
    block = &table_.emplace_back();
  } else {
    block = spare_.back();
    spare_.pop_back();
    *block = Block{};
  }
  block->start = start;
  return block;
}

void BlockStore::Delete(Block* block) {
  if (!in_block_) spare_.push_back(block);
}

void BlockStore::Seal(Block* block) const {
  if (in_block_) block->seal = SealOf(*block);
}

bool BlockStore::Intact(const Block* block) const { return !in_block_ || block->seal == SealOf(*block); }

}  // namespace snug::core::memory
