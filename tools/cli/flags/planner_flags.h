// The flags of planners of memory, whichever is chosen.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "memory/planner.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

// A planner that a command is about to run.
struct PlannerInPlay {
  std::string strategy;
  std::string sharing = {};  // the policy of streams, which places in place of the strategy; "": none
  bool orders = true;        // false: it places buffers whose lifetimes are fixed already
};

struct PlannerFlags {
  static constexpr size_t kOllaSwitches = 8;

  int64_t work_limit = 0, threads = 0;
  double time_limit = 0;
  std::optional<int64_t> match_range, colors;
  std::optional<std::string> olla_mode;
  std::array<std::optional<bool>, kOllaSwitches> olla;
  bool ops_run = true;  // with streams, therefore

  void AddTo(Flags& flags);
  void AddThreadsTo(Flags& flags);  // only where --threads means nothing else, because no op runs
  // Refuses flags that none of these planners reads, as they would change nothing, silently. Limits of work and time
  // are no such flags: whoever searches nothing keeps to every one.
  absl::StatusOr<memory::PlannerOptions> Options(absl::Span<const PlannerInPlay> planners) const;

 private:
  absl::Status ExpectReaders(absl::Span<const PlannerInPlay> planners) const;
};

}  // namespace snug::core::cli
