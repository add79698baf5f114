// What an allocator counts.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>

namespace snug::memory {

struct AllocatorStatistics {
  // Bytes in use, as they were asked for: without alignment, headers and tails.
  int64_t used_bytes = 0;
  int64_t peak_used_bytes = 0;
  int64_t direct_bytes = 0;   // of those in use: in blocks that came from the system past the pool
  int64_t block_bytes = 0;    // what the blocks in use take, all included
  int64_t waiting_bytes = 0;  // blocks that were freed and wait for a stream

  // Bytes taken from the system, in use or not.
  int64_t reserved_bytes = 0;
  int64_t peak_reserved_bytes = 0;
  // The most in use while so much was reserved. Not what was in use as it was taken: a pool is taken for what is to
  // come.
  int64_t used_at_reserved_peak = 0;

  int64_t live_blocks = 0;
  int64_t allocations = 0;
  int64_t frees = 0;
  int64_t system_allocations = 0;
  int64_t system_frees = 0;

  // As OLLA measures it: the share of the reserved bytes, at their peak, that nothing in use needed.
  double Fragmentation() const {
    if (peak_reserved_bytes == 0) return 0;
    return static_cast<double>(peak_reserved_bytes - used_at_reserved_peak) / static_cast<double>(peak_reserved_bytes);
  }
};

// One line of the block map.
struct BlockInfo {
  int32_t stream = 0;  // whose pool it is in
  int64_t chunk = 0;   // 0 is the pool's oldest
  int64_t offset = 0;  // in the chunk, of the block
  int64_t block_bytes = 0;
  bool free = false;
  int64_t bytes = 0;       // as asked; 0 for one that is free, or was and waits for a stream
  absl::string_view name;  // as given to Allocate
};

}  // namespace snug::memory
