#include "memory/allocator/options.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <limits>

namespace snug::memory {
namespace {

absl::Status Wrong(absl::string_view option, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat("option \"", option, "\": expected ", expected, ", found ", found));
}

absl::Status CheckShare(absl::string_view option, double value) {
  if (value >= 0 && value <= 1) return absl::OkStatus();
  return Wrong(option, "a share from 0 to 1", absl::StrCat(value));
}

absl::Status CheckSize(absl::string_view option, int64_t value) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1'000'000 / 4;
  if (value >= 0 && value <= kMost) return absl::OkStatus();
  return Wrong(option, absl::StrCat("0 to ", kMost), absl::StrCat(value));
}

}  // namespace

absl::Status Validate(const AllocatorOptions& options) {
  const auto& name = options.allocator;
  if (name != "auto_growth" && name != "prealloc" && name != "buddy" && name != "system") {
    return Wrong("allocator", "auto_growth, prealloc, buddy or system", absl::StrCat("\"", name, "\""));
  }
  for (const absl::Status& status : {
           CheckShare("fraction_of_device_memory", options.fraction_of_device_memory),
           CheckShare("device_reserve", options.device_reserve),
           CheckSize("initial_mb", options.initial_mb),
           CheckSize("reallocate_mb", options.reallocate_mb),
           CheckSize("buddy_initial_mb", options.buddy_initial_mb),
           CheckSize("buddy_max_pool_mb", options.buddy_max_pool_mb),
           CheckSize("auto_growth_chunk_mb", options.auto_growth_chunk_mb),
       }) {
    if (!status.ok()) return status;
  }
  if (options.memory_limit < 0) return Wrong("memory_limit", "at least 0", absl::StrCat(options.memory_limit));
  if (options.retry_ms < 0) return Wrong("retry_ms", "at least 0", absl::StrCat(options.retry_ms));
  const int64_t alignment = options.alignment;
  if (alignment < 0 || alignment > 4096 || (alignment & (alignment - 1)) != 0) {
    return Wrong("alignment", "0 or a power of two up to 4096", absl::StrCat(alignment));
  }
  return absl::OkStatus();
}

}  // namespace snug::memory
