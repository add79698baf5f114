// The flags of dynamic memory (`--memory=dynamic`): which allocator, and when dead values go back to it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "engine/compile/dynamic_memory.h"
#include "tools/cli/flags.h"

namespace snug::cli {

struct AllocatorFlags {
  std::optional<std::string> allocator;
  std::optional<double> fraction_of_device_memory, device_reserve, gc_threshold_gb, gc_fraction;
  std::optional<int64_t> initial_mb, reallocate_mb, buddy_initial_mb, buddy_max_pool_mb, auto_growth_chunk_mb;
  std::optional<bool> gc_fast, inplace;

  void AddTo(Flags& flags);
  // `dynamic`: whether memory is; otherwise each flag that was given is an error.
  absl::StatusOr<DynamicMemoryOptions> Options(bool dynamic) const;
};

}  // namespace snug::cli
