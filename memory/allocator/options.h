// What users may choose about dynamic allocation. The names are those of the training options and flags; an MB is 10^6
// bytes.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace snug::core::memory {

struct AllocatorOptions {
  // auto_growth takes chunks as they are needed and keeps them. prealloc takes one large chunk at the start. buddy is a
  // pool that grows, and large requests go past it. system sends every request to the system.
  std::string allocator = "auto_growth";

  // prealloc takes this share of the device's free bytes as its chunk. With 0 it behaves as `system`.
  double fraction_of_device_memory = 0.92;
  double device_reserve = 0;  // the share of the free bytes that is left alone
  // If either is set, it overrides prealloc's fraction. Requests above the larger of them go to the system.
  int64_t initial_mb = 0;
  int64_t reallocate_mb = 0;

  int64_t buddy_initial_mb = 64;    // the first pool's size, and the step by which it grows
  int64_t buddy_max_pool_mb = 512;  // larger requests go to the system

  int64_t auto_growth_chunk_mb = 0;  // a new chunk is never smaller than this

  int64_t memory_limit = 0;  // counts what is taken from the device, idle chunks included; 0: none
  int64_t alignment = 0;     // a power of two; 0: the device's own, at least 256 for auto_growth
  // A request that does not fit waits so long for other threads to free memory. A thread never waits for itself.
  int64_t retry_ms = 10'000;

  bool operator==(const AllocatorOptions&) const = default;
};

// Says when dead values are freed (garbage.h).
struct GarbageOptions {
  // Below 0, nothing is freed before the end of the step. At 0, each value is freed when it dies. Above 0, dead values
  // are kept until they make up as many GB (10^9 bytes), and then all are freed.
  double gc_threshold_gb = 0;
  // The largest values, which together make up this share of all bytes, are freed when they die; the others at the end
  // of the step.
  double gc_fraction = 1;
  // With true, the host frees at once, which is safe because the stream runs in order. With false, a block is freed
  // after the stream has passed (Allocator::FreeWhenStreamPassed).
  bool gc_fast = true;

  bool operator==(const GarbageOptions&) const = default;
};

// Describes an option whose value makes no sense.
struct WrongOption {
  absl::string_view option;  // the option's name, a literal
  std::string message;       // "expected ..., found ..."
};
// Returns the first wrong option.
std::optional<WrongOption> FindWrong(const AllocatorOptions& options);
std::optional<WrongOption> FindWrong(const GarbageOptions& options);

// Fails with InvalidArgument, which names the first wrong option.
absl::Status Validate(const AllocatorOptions& options);
absl::Status Validate(const GarbageOptions& options);

// Says how a pool grows. This is all that auto_growth, prealloc, buddy and system differ in; they share one pool.
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
