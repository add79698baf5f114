// The figures that an allocator counts.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>

namespace snug::core::memory {

struct AllocatorStatistics {
  // Bytes in use, as they were asked for: without alignment, headers and tails.
  int64_t used_bytes = 0;
  int64_t peak_used_bytes = 0;
  int64_t direct_bytes = 0;   // the part of used_bytes in blocks that came from the system past the pool
  int64_t block_bytes = 0;    // includes alignment, headers and tails
  int64_t waiting_bytes = 0;  // in blocks that were freed but that a stream still uses

  // Bytes taken from the system, in use or not.
  int64_t reserved_bytes = 0;
  int64_t peak_reserved_bytes = 0;
  // The most that was in use while the reserved bytes stood at their peak. The figure at the moment of reserving would
  // be too low: a pool is reserved for what is still to come.
  int64_t used_at_reserved_peak = 0;

  int64_t live_blocks = 0;
  int64_t allocations = 0;
  int64_t frees = 0;
  int64_t system_allocations = 0;
  int64_t system_frees = 0;

  // Fragmentation as OLLA measures it: the share of the reserved bytes, at their peak, that nothing in use needed.
  double Fragmentation() const {
    if (peak_reserved_bytes == 0) return 0;
    return static_cast<double>(peak_reserved_bytes - used_at_reserved_peak) / static_cast<double>(peak_reserved_bytes);
  }
};

// Describes one block of the block map.
struct BlockInfo {
  int32_t stream = 0;  // the stream whose pool it belongs to
  int64_t chunk = 0;   // 0 for the pool's oldest
  int64_t offset = 0;  // the block's offset in its chunk
  int64_t block_bytes = 0;
  bool free = false;
  int64_t bytes = 0;       // what was asked for; 0 when it is free or waits for a stream
  absl::string_view name;  // the name that Allocate was given
};

}  // namespace snug::core::memory
