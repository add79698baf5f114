// The facts about a request that could not be served, and the message made from them: what was asked, what there is,
// who holds it, and what would fit. All figures are counted or computed from the pool's state; none is a guess.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memory/allocator/memory_source.h"

namespace snug::core::memory {

struct OutOfMemory {
  struct Holder {
    std::string name;
    int64_t bytes = 0;
    std::string held_as = {};  // see BlockOwner
  };

  Place place;
  int64_t asked_bytes = 0;
  std::string asked_by;
  std::string cause;  // in the system's words

  int64_t used_bytes = 0;
  int64_t held_bytes = 0;  // the part of the bytes in use that the user holds: what was fed or is to be fetched
  int64_t live_blocks = 0;
  int64_t waiting_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t device_free_bytes = -1;  // -1 when unknown
  int64_t limit_bytes = 0;         // 0 means none
  int64_t free_bytes = 0;          // reserved and not in use
  int64_t largest_free_bytes = 0;  // the largest single piece of free_bytes
  std::vector<Holder> largest;     // at most five, the largest first

  // The largest request that would have been served.
  int64_t fits_bytes = 0;
  // The request would be served with this limit. 0 when no limit would help.
  int64_t limit_that_fits = 0;
};

// Adds what only someone who knows the network can say: a batch that fits, another strategy. May be empty. It is called
// without a lock.
using OutOfMemoryAdvice = std::function<std::string(const OutOfMemory&)>;

absl::Status ToStatus(const OutOfMemory& facts, const OutOfMemoryAdvice& advice);  // ResourceExhausted

}  // namespace snug::core::memory
