// How a pool grows: all that auto_growth, prealloc, buddy and system differ in. The pool under them is one.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <limits>

#include "memory/allocator/options.h"

namespace snug::memory {

struct Growth {
  // Larger requests go to the system and come back to it. 0: all of them do.
  int64_t max_pooled_bytes = std::numeric_limits<int64_t>::max();
  // The first chunk, and those after it; at least what is asked for.
  int64_t first_bytes = 0;
  int64_t next_bytes = 0;
  // Above 0: chunks are this share of what the device has free instead.
  double fraction = 0;
};

// How large the next chunk is to be when `needed` bytes must fit.
int64_t ChunkBytes(const Growth& growth, int64_t needed, bool first, int64_t available);

// The growth of the allocator that the options name, on a device with `available` bytes left (-1: unknown).
absl::StatusOr<Growth> GrowthOf(const AllocatorOptions& options, int64_t available);

}  // namespace snug::memory
