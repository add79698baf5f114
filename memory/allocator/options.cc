#include "memory/allocator/options.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace snug::core::memory {
namespace {

using Wrong = std::optional<WrongOption>;

Wrong CheckShare(absl::string_view option, double value) {
  if (value >= 0 && value <= 1) return std::nullopt;
  return WrongOption{option, absl::StrCat("expected a share from 0 to 1, found ", value)};
}

Wrong CheckAtLeast0(absl::string_view option, int64_t value) {
  if (value >= 0) return std::nullopt;
  return WrongOption{option, absl::StrCat("expected at least 0, found ", value)};
}

Wrong CheckWait(absl::string_view option, int64_t milliseconds) {
  constexpr int64_t kMost = 86'400'000;  // a day: the clock would overflow with centuries
  if (milliseconds >= 0 && milliseconds <= kMost) return std::nullopt;
  return WrongOption{option, absl::StrCat("expected 0 to ", kMost, ", found ", milliseconds)};
}

Wrong CheckSize(absl::string_view option, int64_t value) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1'000'000 / 4;
  if (value >= 0 && value <= kMost) return std::nullopt;
  return WrongOption{option, absl::StrCat("expected 0 to ", kMost, ", found ", value)};
}

absl::Status ToStatus(const Wrong& wrong) {
  if (!wrong.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("option \"", wrong->option, "\": ", wrong->message));
}

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

std::optional<WrongOption> FindWrong(const AllocatorOptions& options) {
  const auto& name = options.allocator;
  if (name != "auto_growth" && name != "prealloc" && name != "buddy" && name != "system") {
    return WrongOption{"allocator",
                       absl::StrCat("expected auto_growth, prealloc, buddy or system, found \"", name, "\"")};
  }
  std::array checks = {
      CheckShare("fraction_of_device_memory", options.fraction_of_device_memory),
      CheckShare("device_reserve", options.device_reserve),
      CheckSize("initial_mb", options.initial_mb),
      CheckSize("reallocate_mb", options.reallocate_mb),
      CheckSize("buddy_initial_mb", options.buddy_initial_mb),
      CheckSize("buddy_max_pool_mb", options.buddy_max_pool_mb),
      CheckSize("auto_growth_chunk_mb", options.auto_growth_chunk_mb),
      CheckAtLeast0("memory_limit", options.memory_limit),
      CheckWait("retry_ms", options.retry_ms),
  };
  for (Wrong& wrong : checks) {
    if (wrong.has_value()) return std::move(wrong);
  }
  const int64_t alignment = options.alignment;
  if (alignment < 0 || alignment > 4096 || (alignment & (alignment - 1)) != 0) {
    return WrongOption{"alignment", absl::StrCat("expected 0 or a power of two up to 4096, found ", alignment)};
  }
  return std::nullopt;
}

std::optional<WrongOption> FindWrong(const GarbageOptions& options) {
  constexpr double kMostGb = 1e6;
  if (!std::isfinite(options.gc_threshold_gb) || options.gc_threshold_gb > kMostGb) {
    return WrongOption{"gc_threshold_gb",
                       absl::StrCat("expected a finite number of at most 1000000, found ", options.gc_threshold_gb)};
  }
  return CheckShare("gc_fraction", options.gc_fraction);
}

absl::Status Validate(const AllocatorOptions& options) { return ToStatus(FindWrong(options)); }
absl::Status Validate(const GarbageOptions& options) { return ToStatus(FindWrong(options)); }

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
