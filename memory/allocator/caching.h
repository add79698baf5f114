// PyTorch's allocator for CUDA (c10/cuda/CUDACachingAllocator.cpp, as it is where no option is set), simulated: what it
// takes from the device for a sequence of requests. It is here to be compared with; nothing of ours runs on it.
//
// Its rules. A request is rounded up to 512 bytes. Those of up to 1 MiB are served from the small pool, in segments of
// 2 MiB; larger ones from the large pool, in segments of 20 MiB, or, from 10 MiB on, of their own size rounded up to 2
// MiB. The smallest free block of the pool that is large enough serves, of several the one at the lowest address; if
// there is none, a new segment is taken. What is left over of a block becomes a free block if it has 512 bytes (small
// pool) or more than 1 MiB (large pool); else the request keeps it. Blocks that are freed join free neighbours in their
// segment. Segments are kept, and nothing is ever moved.
//
// The simulated device never runs out, so what the allocator does then (it gives whole free segments back) is left out.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "memory/problem.h"
#include "memory/tasks.h"

namespace snug::core::memory {

struct CachingStatistics {
  int64_t requested_bytes = 0, peak_requested_bytes = 0;  // as they were asked for
  int64_t block_bytes = 0, peak_block_bytes = 0;          // with what blocks have beyond; "allocated" in PyTorch
  int64_t reserved_bytes = 0;                             // taken from the device; it never falls
  int64_t segments = 0;
};

class CachingAllocator {
 public:
  // Returns the block's number, by which it is freed; numbers are used again. Bytes must be positive.
  int32_t Allocate(int64_t bytes);
  void Free(int32_t block);

  const CachingStatistics& statistics() const { return statistics_; }

 private:
  struct Block {
    int64_t address = 0, bytes = 0, requested = 0;
    int32_t before = -1, after = -1;  // its neighbours in the segment
    bool small = false, free = false;
  };
  using FreeBlock = std::tuple<int64_t, int64_t, int32_t>;  // bytes, address, number

  Block& at(int32_t number) { return blocks_[static_cast<size_t>(number)]; }
  std::set<FreeBlock>& pool(const Block& block) { return pools_[block.small ? 0 : 1]; }
  int32_t NewNumber();
  int32_t TakeSegment(int64_t bytes, bool small);
  void CutOff(int32_t number, int64_t bytes);
  void JoinNext(int32_t number);  // with the block behind it

  std::vector<Block> blocks_;
  std::vector<int32_t> spare_;  // numbers that stand for no block
  std::array<std::set<FreeBlock>, 2> pools_;
  int64_t next_address_ = 0;
  CachingStatistics statistics_;
};

// What a program asks an allocator for.
struct Requests {
  std::vector<int64_t> resident;  // bytes taken once, before the first step
  Problem step;                   // the rest; its buffers' lifetimes are all that counts
};

// Returns what running the tasks in the sequence in which they are listed asks for. Fails with InvalidArgument where
// that is no legal order.
absl::StatusOr<Requests> RequestsOf(const Tasks& tasks);

// Takes the `resident` bytes, in sequence, and runs the step so many times: at each position it takes the buffers that
// begin there, in sequence, and then frees those whose last position it is. In-place pairs, gaps and offsets do not
// count, and buffers without bytes take nothing. From the second step on the pools are in disorder, so one is not
// enough.
CachingStatistics SimulateCachingAllocator(const Requests& requests, int steps);

}  // namespace snug::core::memory
