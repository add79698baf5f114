// Says how a pool grows. This is all that auto_growth, prealloc, buddy and system differ in; they share one pool.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <limits>

#include "memory/allocator/options.h"

namespace snug::core::memory {

struct Growth {
  // Larger requests go to the system and are given back to it; with 0 all do.
  int64_t max_pooled_bytes = std::numeric_limits<int64_t>::max();
  // The sizes of the first chunk and of later ones; a chunk is never smaller than the request.
  int64_t first_bytes = 0;
  int64_t next_bytes = 0;
  // When it is above 0, a chunk takes this share of what the device has free instead.
  double fraction = 0;
};

// Returns how large the next chunk should be when `needed` bytes must fit.
int64_t ChunkBytes(const Growth& growth, int64_t needed, bool first, int64_t available);

// Returns the growth of the allocator that the options name. `available` bytes are left on the device; -1 when that is
// unknown.
absl::StatusOr<Growth> GrowthOf(const AllocatorOptions& options, int64_t available);

}  // namespace snug::core::memory
