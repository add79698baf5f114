// What users may choose about dynamic allocation. Names are those of the training options and flags; MB is 10^6 bytes.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>

namespace snug::memory {

struct AllocatorOptions {
  // auto_growth: chunks as they are needed, kept. prealloc: one large chunk from the start. buddy: a pool that grows,
  // large requests go past it. system: every request goes to the system.
  std::string allocator = "auto_growth";

  // prealloc: the chunk is this share of the device's free bytes; 0: as `system`.
  double fraction_of_device_memory = 0.92;
  double device_reserve = 0;  // a share of the free bytes left alone first
  // prealloc: either one set overrides the fraction. Requests above the larger go to the system.
  int64_t initial_mb = 0;
  int64_t reallocate_mb = 0;

  int64_t buddy_initial_mb = 64;    // the first pool, and what it grows by
  int64_t buddy_max_pool_mb = 512;  // larger requests go to the system

  int64_t auto_growth_chunk_mb = 0;  // a new chunk is at least as large

  int64_t memory_limit = 0;  // bytes taken from the device, chunks in store included; 0: none
  int64_t alignment = 0;     // a power of two; 0: the device's own, and at least 256 for auto_growth
  // How long a request that does not fit waits for other threads to free. A thread never waits for itself.
  int64_t retry_ms = 10'000;

  bool operator==(const AllocatorOptions&) const = default;
};

// When dead values are freed (garbage.h).
struct GarbageOptions {
  // Below 0: nothing is freed before the end of the step. 0: each value as it dies. Above: dead values are kept until
  // they are as many GB (10^9 bytes), then all are freed.
  double gc_threshold_gb = 0;
  // The largest values that make up this share of all bytes are freed as they die, the others at the end of the step.
  double gc_fraction = 1;
  // Freed on the host at once, which the order of the stream makes safe; or after the stream has passed
  // (Allocator::FreeWhenStreamPassed).
  bool gc_fast = true;

  bool operator==(const GarbageOptions&) const = default;
};

// A value that makes no sense.
struct WrongOption {
  absl::string_view option;  // a literal: its name
  std::string message;       // "expected ..., found ..."
};
// The first of them.
std::optional<WrongOption> FindWrong(const AllocatorOptions& options);
std::optional<WrongOption> FindWrong(const GarbageOptions& options);

// InvalidArgument that names the first of them.
absl::Status Validate(const AllocatorOptions& options);
absl::Status Validate(const GarbageOptions& options);

}  // namespace snug::memory
