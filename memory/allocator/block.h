// A block is a stretch of a chunk, in use or free. Its record lies at its start where the host can write there, as in
// the buddy allocator of the seed, and in a table where it cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <tuple>
#include <vector>

namespace snug::core::memory {

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

// A chunk is one piece of memory from the source.
struct Chunk {
  std::byte* base = nullptr;
  int64_t bytes = 0;
  // Chunks are numbered as if they lay one after another in the order in which they were taken. Ties between free
  // blocks are broken by this number and not by address, so that a pool behaves the same wherever the system puts its
  // chunks, also in a simulation.
  int64_t position = 0;
  bool direct = false;  // it is one block, which goes back to the source when it is freed
  Block* first = nullptr;
  size_t index = 0;  // the chunk's place in the pool's list
};

struct alignas(64) Block {
  std::byte* start;  // includes the header, if there is one
  int64_t bytes;     // includes the header
  Block* left;       // the neighbours by address in the same chunk
  Block* right;
  Chunk* chunk;
  FreeSet::iterator free_place;  // valid only while the block is free
  uint64_t free;                 // 0 or 1, but not a bool: reading one that a stray write has left at 2 is undefined
  uint64_t seal;                 // a checksum of all the above, which shows when a stray write has hit the header

  int64_t position() const { return chunk->position + (start - chunk->base); }
};
constexpr int64_t kBlockHeaderBytes = sizeof(Block);
static_assert(kBlockHeaderBytes == 64);

// Creates and drops the records.
class BlockStore {
 public:
  explicit BlockStore(bool in_block) : in_block_(in_block) {}

  Block* New(std::byte* start);
  void Delete(Block* block);

  // Seal must follow every change of a record; Intact then tells whether anyone else has changed it. Records in the
  // table are out of reach of stray writes and bear no seal.
  void Seal(Block* block) const;
  bool Intact(const Block* block) const;

 private:
  const bool in_block_;
  std::deque<Block> table_;
  std::vector<Block*> spare_;
};

}  // namespace snug::core::memory
