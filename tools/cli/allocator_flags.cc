#include "tools/cli/allocator_flags.h"

#include <absl/strings/str_cat.h>

namespace snug::cli {
namespace {

template <class Self, class Visit>
void ForEachFlag(Self& f, const Visit& visit) {
  visit("allocator", f.allocator,
        "dynamic: auto_growth (chunks as they are needed; default), prealloc (one large chunk), buddy, or system");
  visit("fraction-of-device-memory", f.fraction_of_device_memory,
        "prealloc: the chunk is this share of what is free; 0: as system; default 0.92");
  visit("device-reserve", f.device_reserve, "prealloc: this share of what is free is left alone first; default 0");
  visit("initial-mb", f.initial_mb, "prealloc: the first chunk in MB, instead of a share; default 0");
  visit("reallocate-mb", f.reallocate_mb, "prealloc: the later chunks in MB; default 0");
  visit("buddy-initial-mb", f.buddy_initial_mb, "buddy: the first pool in MB, and what it grows by; default 64");
  visit("buddy-max-pool-mb", f.buddy_max_pool_mb, "buddy: larger requests go to the system; in MB, default 512");
  visit("auto-growth-chunk-mb", f.auto_growth_chunk_mb, "auto_growth: a new chunk is at least as large; default 0");
  visit("gc-threshold-gb", f.gc_threshold_gb,
        "dynamic: dead values are kept until they are as many GB; 0: freed as they die (default); below 0: at the end "
        "of the step");
  visit("gc-fraction", f.gc_fraction,
        "dynamic: the largest values that make up this share of the bytes are freed as they die, the others at the end "
        "of the step; default 1");
  visit("gc-fast", f.gc_fast,
        "dynamic: freed on the host at once, not after the stream has passed; the same on the CPU; default true");
  visit("inplace", f.inplace,
        "dynamic: an output takes the bytes of an input that nobody else needs any more; default true");
}

template <class T>
void Set(const std::optional<T>& flag, T* option) {
  if (flag.has_value()) *option = *flag;
}

}  // namespace

void AllocatorFlags::AddTo(Flags& flags) {
  ForEachFlag(*this, [&flags](const char* name, auto& value, const char* help) { flags.Add(name, &value, help); });
}

absl::StatusOr<DynamicMemoryOptions> AllocatorFlags::Options(bool dynamic) const {
  std::string given;
  ForEachFlag(*this, [&given](const char* name, const auto& value, const char*) {
    if (value.has_value()) given = name;
  });
  if (!dynamic && !given.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", given, ": expected --memory=dynamic beside it: planned memory has no allocator"));
  }
  DynamicMemoryOptions options;
  Set(allocator, &options.allocator.allocator);
  Set(fraction_of_device_memory, &options.allocator.fraction_of_device_memory);
  Set(device_reserve, &options.allocator.device_reserve);
  Set(initial_mb, &options.allocator.initial_mb);
  Set(reallocate_mb, &options.allocator.reallocate_mb);
  Set(buddy_initial_mb, &options.allocator.buddy_initial_mb);
  Set(buddy_max_pool_mb, &options.allocator.buddy_max_pool_mb);
  Set(auto_growth_chunk_mb, &options.allocator.auto_growth_chunk_mb);
  Set(gc_threshold_gb, &options.garbage.gc_threshold_gb);
  Set(gc_fraction, &options.garbage.gc_fraction);
  Set(gc_fast, &options.garbage.gc_fast);
  Set(inplace, &options.inplace);
  return options;
}

}  // namespace snug::cli
