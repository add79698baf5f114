// What an allocator will do, before it does it: a program's allocations and frees are run by the real allocator over a
// pretended device. No memory is touched; the peak is the one that the same sequence gives on a device that is never
// itself in pieces.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>

#include "memory/allocator/options.h"
#include "memory/allocator/place.h"
#include "memory/allocator/statistics.h"

namespace snug::memory {

struct AllocatorEvent {
  enum class Kind { kAllocate, kFree };
  Kind kind = Kind::kAllocate;
  int32_t block = 0;  // the program's number for it, from 0; may be allocated again once it was freed
  int64_t bytes = 0;  // to allocate
  int32_t stream = 0;
  absl::string_view name;  // for the report of an out-of-memory, as in BlockOwner
  absl::string_view held_as;
};

struct SimulatedDevice {
  Place place;
  int64_t free_bytes = -1;  // before the first event; -1: without end
};

// ResourceExhausted, with the report that the program would get, when it would run out of memory.
absl::StatusOr<AllocatorStatistics> Simulate(absl::Span<const AllocatorEvent> events, const AllocatorOptions& options,
                                             const SimulatedDevice& device);

}  // namespace snug::memory
