// Merges what users say about memory: in `training { memory { } }` of a file, in flags, or through a program that
// embeds the library. Errors about a value name the place where it was written.
//
//   SNUG_ASSIGN_OR_RETURN(options.memory, SettleMemory({{&given, OptionPlaces::OnCommandLine()},
//                                                       {&network.training().memory(), OptionPlaces::InFile(map)}}));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>

#include "engine/compile/memory/plan_memory.h"
#include "proto/option_places.h"

namespace snug::proto {
class Memory;
}

namespace snug::core {

struct MemorySource {
  const proto::Memory* memory;
  OptionPlaces places;
};

// Calls visit("gc_fraction", options.garbage.gc_fraction) and so on for all fields of proto::Memory for dynamic memory,
// by their names there.
template <class Options, class Visit>
void ForEachOption(Options& options, const Visit& visit) {
  visit("allocator", options.allocator.allocator);
  visit("fraction_of_device_memory", options.allocator.fraction_of_device_memory);
  visit("device_reserve", options.allocator.device_reserve);
  visit("initial_mb", options.allocator.initial_mb);
  visit("reallocate_mb", options.allocator.reallocate_mb);
  visit("buddy_initial_mb", options.allocator.buddy_initial_mb);
  visit("buddy_max_pool_mb", options.allocator.buddy_max_pool_mb);
  visit("auto_growth_chunk_mb", options.allocator.auto_growth_chunk_mb);
  visit("retry_ms", options.allocator.retry_ms);
  visit("gc_threshold_gb", options.garbage.gc_threshold_gb);
  visit("gc_fraction", options.garbage.gc_fraction);
  visit("gc_fast", options.garbage.gc_fast);
  visit("inplace", options.inplace);
}

// Checks the name of a planner, or kDynamicMemory. Fails with NotFound or InvalidArgument, which suggest the nearest
// name.
absl::Status CheckStrategyName(absl::string_view name);

// Fails with InvalidArgument when a value makes no sense.
absl::Status CheckMemory(const MemorySource& source);
// Fails with InvalidArgument when something is set that only dynamic memory has.
absl::Status ExpectNothingDynamic(const MemorySource& source);

// Merges several sources and checks each. For each option the first source counts that sets it.
absl::StatusOr<MemoryOptions> MergeMemory(absl::Span<const MemorySource> sources);
// Does the same, and refuses options for an allocator when the memory is planned, because then there is none. They are
// allowed in sources after the one that chose the strategy: they were meant for another one.
absl::StatusOr<MemoryOptions> SettleMemory(absl::Span<const MemorySource> sources);

}  // namespace snug::core
