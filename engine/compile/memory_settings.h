// What users say about memory, put together: `training { memory { } }` of a file, flags, or what a program that embeds
// the library sets. Each value is checked where it was written.
//
//   SNUG_ASSIGN_OR_RETURN(options.memory, SettleMemory({{&given, OptionPlaces::OnCommandLine()},
//                                                       {&network.training().memory(), OptionPlaces::InFile(map)}}));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>

#include "engine/compile/plan_memory.h"
#include "proto/option_places.h"

namespace snug {
namespace proto {
class Memory;
}

struct MemorySource {
  const proto::Memory* memory;
  OptionPlaces places;
};

// Calls visit("gc_fraction", options.garbage.gc_fraction) and the like: what proto::Memory has for dynamic memory, by
// the names it has there.
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

// Of a planner's name, or kDynamicMemory: NotFound or InvalidArgument with the nearest name there is.
absl::Status CheckStrategyName(absl::string_view name);

// InvalidArgument: a value makes no sense.
absl::Status CheckMemory(const MemorySource& source);
// InvalidArgument: something is set that only dynamic memory has.
absl::Status ExpectNothingDynamic(const MemorySource& source);

// What several say, each checked; of an option counts what the first says that says anything.
absl::StatusOr<MemoryOptions> MergeMemory(absl::Span<const MemorySource> sources);
// And planned memory has no allocator: options for one are an error, unless they stand in a source behind the one that
// chose the strategy, and so were meant for another.
absl::StatusOr<MemoryOptions> SettleMemory(absl::Span<const MemorySource> sources);

}  // namespace snug
