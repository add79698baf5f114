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
#include "memory/allocator/counted_source.h"
#include "memory/allocator/free_index.h"
#include "memory/allocator/growth.h"

namespace snug::memory {

// A block in use.
struct Grant {
  std::byte* address = nullptr;  // what the user gets
  Block* block = nullptr;
  int64_t block_bytes = 0;  // with alignment, header, and a tail too small to be a block
  bool direct = false;      // from the system, past the pool
};

class BlockPool {
 public:
  struct Options {
    int64_t alignment = 64;
    // Room for the record at the start of each block, a multiple of the alignment; 0: records lie in a table. (With
    // room on memory that the host cannot write, they lie in a table too: a simulation of the former.)
    int64_t header_bytes = 0;
    Growth growth;
  };

  BlockPool(const Options& options, CountedSource* source);
  ~BlockPool();  // every chunk goes back to the source
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // bytes > 0. The source's error when it has to be asked and refuses.
  absl::StatusOr<Grant> Take(int64_t bytes);
  // The block is free again. DataLoss when the headers in reach were written over.
  absl::Status Give(Block* block);
  // Chunks of one free block go back to the source. Their bytes.
  int64_t ReleaseIdle();

  int64_t free_bytes() const { return free_.bytes(); }
  // The largest request that needs nothing from the source.
  int64_t largest_free_bytes() const;
  // The bytes that a request of `bytes` takes.
  int64_t BlockBytes(int64_t bytes) const;
  // The largest request that `chunk_bytes` more from the source could serve.
  int64_t RequestThatFits(int64_t chunk_bytes) const;
  // Whether the address lies in one of the chunks.
  bool Contains(const void* address) const;

  // All blocks, chunk by chunk as they were taken, by address within each.
  void Visit(const std::function<void(const Block&)>& visit) const;
  std::byte* AddressOf(const Block& block) const { return block.start + options_.header_bytes; }

  // Whether all records agree with each other. Linear; for tests and for the hunt for a stray write.
  absl::Status Check() const;

 private:
  absl::StatusOr<Chunk*> AddChunk(int64_t bytes);
  absl::StatusOr<Block*> Grow(int64_t needed);
  void RemoveChunk(Chunk* chunk);
  Grant Use(Block* block);
  void SplitOff(Block* block, int64_t bytes);  // leaves `bytes` in block; the rest becomes a free one
  void MergeRight(Block* block);               // the right neighbour, not in the index, becomes part of block
  void SetLeft(Block* block, Block* left);
  absl::Status CheckIntact(const Block* block) const;

  const Options options_;
  CountedSource* const source_;
  BlockStore store_;
  FreeIndex free_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  bool grown_ = false;  // a pool's first chunk may differ from the later ones
  int64_t next_position_ = 0;
};

}  // namespace snug::memory
