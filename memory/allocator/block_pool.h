// A pool of memory: takes chunks from the source, cuts them into blocks by best fit, and merges free neighbours. What
// is free within a chunk stays with the pool until the whole chunk is free and ReleaseIdle is called.
//
// Take and Give are logarithmic in the number of free blocks. Thread-compatible: the allocator that owns it has a lock.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "memory/allocator/block.h"
#include "memory/allocator/free_index.h"
#include "memory/allocator/memory_source.h"
#include "memory/allocator/options.h"

namespace snug::core::memory {

// Describes a block that Take hands out.
struct Grant {
  std::byte* address = nullptr;  // the first byte that the user gets
  Block* block = nullptr;
  int64_t block_bytes = 0;  // includes alignment, header, and a tail too small to be a block
  bool direct = false;      // it came from the system, past the pool
};

class BlockPool {
 public:
  struct Options {
    int64_t alignment = 64;
    // The room for a record at the start of each block, a multiple of the alignment. 0 puts the records into a table.
    // Where the host cannot write, room is kept but records still lie in a table: so a simulation takes the same bytes.
    int64_t header_bytes = 0;
    Growth growth;
  };

  BlockPool(const Options& options, CountedSource* source);
  ~BlockPool();  // gives every chunk back to the source
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // `bytes` must be positive. Fails with the source's error when the source is needed and refuses.
  absl::StatusOr<Grant> Take(int64_t bytes);
  // Makes the block free again. DataLoss when a header in reach was written over.
  absl::Status Give(Block* block);
  // Gives chunks that are one free block back to the source. Returns their bytes.
  int64_t ReleaseIdle();

  int64_t free_bytes() const { return free_.bytes(); }
  // The largest request that can be served without the source.
  int64_t largest_free_bytes() const;
  // The bytes that a request of `bytes` takes from the pool.
  int64_t BlockBytes(int64_t bytes) const;
  // The largest request that `chunk_bytes` more from the source could serve.
  int64_t RequestThatFits(int64_t chunk_bytes) const;
  // Tells whether the address lies in one of the chunks.
  bool Contains(const void* address) const;

  // Visits all blocks: chunks in the order in which they were taken, blocks by address.
  void Visit(const std::function<void(const Block&)>& visit) const;
  std::byte* AddressOf(const Block& block) const { return block.start + options_.header_bytes; }

  // Checks that all records agree with each other. It takes linear time: it is for tests and for hunting a stray write.
  absl::Status Check() const;

 private:
  absl::StatusOr<Chunk*> AddChunk(int64_t bytes);
  absl::StatusOr<Block*> Grow(int64_t needed);
  void RemoveChunk(Chunk* chunk);
  Grant Use(Block* block);
  void SplitOff(Block* block, int64_t bytes);  // leaves `bytes` in the block and makes the rest a free one
  void MergeRight(Block* block);               // adds the right neighbour, which must not be in the index, to the block
  void SetLeft(Block* block, Block* left);
  absl::Status CheckIntact(const Block* block) const;

  const Options options_;
  CountedSource* const source_;
  BlockStore store_;
  FreeIndex free_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  bool grown_ = false;  // false until the first chunk, which may have another size than later ones
  int64_t next_position_ = 0;
};

}  // namespace snug::core::memory
