// The flags shared by all commands that plan the memory of a network. Each is defined here once and means the same in
// every command; tests/cli/common_flags_test.py says which command takes which.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/compile/memory/plan_memory.h"
#include "proto/text_loader.h"  // with the messages
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/planner_flags.h"

namespace snug::core::cli {

struct StreamFlags {
  int64_t count = 1;
  std::string policy;

  void AddTo(Flags& flags);
  absl::Status SetIn(MemoryOptions* options) const;
};

// Options for one strategy, for a saved plan, or for no plan at all. What the flags leave out is taken from the model
// file's `training { memory { } }`.
struct MemoryFlags {
  std::string plan_file;
  StreamFlags streams;
  PlannerFlags planner;
  proto::Memory given;  // only what the command line says

  void AddTo(Flags& flags);
  // Flags come first, then `files` in their sequence: what is said first counts.
  absl::StatusOr<MemoryOptions> Options(absl::Span<const LoadedNetwork* const> files) const;
};

// Options for several strategies, which may include dynamic memory. If none is named these are all that are quick, and
// the slow ones too where they have a limit in seconds.
struct StrategyListFlags {
  double slow_seconds = 0;  // the limit for each slow strategy, unless a flag sets one; 0: slow ones must be named
  std::vector<std::string> usual;  // those of which the default is made; empty: all there are
  std::vector<std::string> strategies;
  StreamFlags streams;
  PlannerFlags planner;
  proto::Memory given;  // holds everything but the strategy

  void AddTo(Flags& flags);
  // Adds --memory-limit, for commands that keep one.
  void AddLimitTo(Flags& flags, const std::string& help);
  // Uses what the model file says about dynamic memory and its limit, but not its strategy.
  absl::StatusOr<std::vector<MemoryOptions>> Options(const LoadedNetwork& file) const;
};

}  // namespace snug::core::cli
