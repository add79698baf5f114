// The flags of planners of memory, whichever is chosen.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>

#include "memory/olla_options.h"
#include "memory/planner.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

struct PlannerFlags {
  int64_t work_limit = 0, match_range, colors, threads = 0;
  double time_limit = 0;
  std::string olla_mode = "auto";
  memory::OllaOptions olla;

  PlannerFlags();
  void AddTo(Flags& flags);
  void AddThreadsTo(Flags& flags);  // only where --threads means nothing else, because no op runs
  // Refuses what none of these strategies and policies of streams reads, as it would change nothing, silently.
  absl::StatusOr<memory::PlannerOptions> Options(absl::Span<const std::string> planners) const;
};

}  // namespace snug::core::cli
