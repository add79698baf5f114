// A block: a stretch of a chunk that is in use or free. The record of it lies at its start where the host can write
// there (as the seed of the buddy allocator has it), in a table otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <tuple>
#include <vector>

namespace snug::memory {

struct Block;

// Free blocks in the order in which they are tried: the smallest first, then the one that lies first.
struct FreeKey {
  int64_t bytes;
  int64_t position;
  Block* block;
  bool operator<(const FreeKey& other) const {
    return std::tie(bytes, position) < std::tie(other.bytes, other.position);
  }
};
using FreeSet = std::set<FreeKey>;

// One piece of memory from the source.
struct Chunk {
  std::byte* base = nullptr;
  int64_t bytes = 0;
  // Chunks as if they lay one after another in the order in which they were taken. Ties between free blocks end by it
  // and not by address, so that a pool does the same wherever the system puts its chunks, in a simulation too.
  int64_t position = 0;
  bool direct = false;  // one block, which goes back to the source as it is freed
  Block* first = nullptr;
  size_t index = 0;  // in the pool's list
};

struct alignas(64) Block {
  std::byte* start;  // with the header, if there is one
  int64_t bytes;     // with the header
  Block* left;       // neighbours by address in the chunk
  Block* right;
  Chunk* chunk;
  FreeSet::iterator free_place;  // while it is free
  uint64_t free;                 // 0 or 1; whatever a stray write leaves here may be read, unlike in a bool
  uint64_t seal;                 // of all the above: a header that a stray write went over is found out

  int64_t position() const { return chunk->position + (start - chunk->base); }
};
constexpr int64_t kBlockHeaderBytes = sizeof(Block);
static_assert(kBlockHeaderBytes == 64);

// Makes and forgets the records.
class BlockStore {
 public:
  explicit BlockStore(bool in_block) : in_block_(in_block) {}

  Block* New(std::byte* start);
  void Delete(Block* block);

  // To be called after every change of a record; Intact tells whether one was changed by anyone else. Records in the
  // table are out of reach of stray writes and bear no seal.
  void Seal(Block* block) const;
  bool Intact(const Block* block) const;

 private:
  const bool in_block_;
  std::deque<Block> table_;
  std::vector<Block*> spare_;
};

}  // namespace snug::memory
