// The flags shared by all commands that compile a network or plan its memory. Each is defined here once and means the
// same in every command; tests/cli/common_flags_test.py says which command takes which.
#pragma once

#include <absl/types/span.h>

#include <string>
#include <vector>

#include "engine/compile/compile_settings.h"
#include "proto/text_loader.h"  // with the messages
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

struct CompileFlags : CompileSettings {
  // No flag: what --help says of --batch.
  std::string batch_otherwise = "that of `training { }` in the model file, the file's own, or 1";

  void AddTo(Flags& flags);
  void AddLessMemoryTo(Flags& flags);  // what takes time or other bits for memory; AddTo does it too
  // These are for commands that compile forward-only programs.
  void AddKeepDerivedTo(Flags& flags);
  void AddOnlyTo(Flags& flags);
  // For commands that train unless --forward is given.
  absl::Status CheckForwardOnly(bool forward) const;
  // When several streams run ops side by side, they share the processors by default.
  absl::StatusOr<CompileOptions> Options(int64_t streams = 1) const;
};

// Options for planners, whichever is chosen.
struct PlannerFlags {
  int64_t work_limit = 0, match_range, colors, threads = 0;
  double time_limit = 0;
  std::string olla_mode = "auto";
  memory::OllaOptions olla;

  PlannerFlags();
  void AddTo(Flags& flags);
  void AddThreadsTo(Flags& flags);  // only where --threads means nothing else, because no op runs
  // Refuses what none of these strategies and policies of streams reads: whoever asks for it would be told nothing.
  absl::StatusOr<memory::PlannerOptions> Options(absl::Span<const std::string> planners) const;
};

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
