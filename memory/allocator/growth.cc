#include "memory/allocator/growth.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

namespace snug::core::memory {
namespace {

constexpr int64_t kMegabyte = 1'000'000;

absl::StatusOr<Growth> PreallocGrowth(const AllocatorOptions& options, int64_t available) {
  Growth growth;
  if (options.initial_mb > 0 || options.reallocate_mb > 0) {
    growth.first_bytes = options.initial_mb * kMegabyte;
    growth.next_bytes = options.reallocate_mb * kMegabyte;
    growth.max_pooled_bytes = std::max(growth.first_bytes, growth.next_bytes);
    if (available >= 0 && growth.max_pooled_bytes > available) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "option \"", options.initial_mb >= options.reallocate_mb ? "initial_mb" : "reallocate_mb",
          "\": expected at most the ", available, " bytes that are free, found ", growth.max_pooled_bytes, " bytes"));
    }
    return growth;
  }
  if (options.fraction_of_device_memory > 0 && available < 0) {
    return absl::FailedPreconditionError(
        "prealloc: how much is free is not known here, so it has no fraction; set \"initial_mb\"");
  }
  growth.fraction = options.fraction_of_device_memory * (1 - options.device_reserve);
  growth.max_pooled_bytes = static_cast<int64_t>(growth.fraction * static_cast<double>(available));
  return growth;
}

}  // namespace

int64_t ChunkBytes(const Growth& growth, int64_t needed, bool first, int64_t available) {
  int64_t wanted = first ? growth.first_bytes : growth.next_bytes;
  if (growth.fraction > 0 && available > 0) {
    wanted = static_cast<int64_t>(growth.fraction * static_cast<double>(available));
  }
  return std::max(needed, wanted);
}

absl::StatusOr<Growth> GrowthOf(const AllocatorOptions& options, int64_t available) {
  if (options.allocator == "prealloc") return PreallocGrowth(options, available);
  Growth growth;
  if (options.allocator == "system") {
    growth.max_pooled_bytes = 0;
  } else if (options.allocator == "buddy") {
    growth.max_pooled_bytes = options.buddy_max_pool_mb * kMegabyte;
    growth.first_bytes = growth.next_bytes = options.buddy_initial_mb * kMegabyte;
  } else {
    growth.first_bytes = growth.next_bytes = options.auto_growth_chunk_mb * kMegabyte;
  }
  return growth;
}

}  // namespace snug::core::memory
