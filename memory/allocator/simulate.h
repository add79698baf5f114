// Finds out beforehand what an allocator will do: the real allocator runs a program's allocations and frees over a
// simulated device. No memory is touched. The peak is the one that the same sequence gives on a device whose own memory
// is never fragmented.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>

#include "memory/allocator/options.h"
#include "memory/allocator/place.h"
#include "memory/allocator/statistics.h"

namespace snug::core::memory {

struct AllocatorEvent {
  enum class Action { kAllocate, kFree };
  Action action = Action::kAllocate;
  int32_t block = 0;  // the program's number for it, from 0; may be used again once it is freed
  int64_t bytes = 0;  // only for allocations
  int32_t stream = 0;
  absl::string_view name;  // named in the report of an out-of-memory, as in BlockOwner
  absl::string_view held_as;
};

struct SimulatedDevice {
  Place place;
  int64_t free_bytes = -1;  // before the first event; -1: unlimited
};

// Fails with ResourceExhausted, and the report that the program would get, where the program would run out of memory.
absl::StatusOr<AllocatorStatistics> Simulate(absl::Span<const AllocatorEvent> events, const AllocatorOptions& options,
                                             const SimulatedDevice& device);

}  // namespace snug::core::memory
