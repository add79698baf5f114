// The flags that all commands share which compile a network or plan its memory. Each is defined here once, and means
// the same wherever it is taken; tests/cli/common_flags_test.py says which command takes which.
#pragma once

#include <absl/types/span.h>

#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"  // with the messages
#include "tools/cli/flags.h"

namespace snug::cli {

struct CompileFlags {
  std::string device = "cpu";
  int64_t batch = 0, threads = 0;
  bool plain_kernels = false, fast = false, tf32 = false, keep_inputs = false;
  std::string precision, tuning;
  std::vector<std::string> disabled_passes;

  void AddTo(Flags& flags);
  // Where several streams run ops side by side, the default is that they share the processors.
  absl::StatusOr<CompileOptions> Options(int64_t streams = 1) const;
};

// How planners work, whichever is chosen.
struct PlannerFlags {
  int64_t work_limit = 0, match_range, colors, threads = 0;
  double time_limit = 0;
  std::string olla_mode = "auto";
  memory::OllaOptions olla;

  PlannerFlags();
  void AddTo(Flags& flags);
  void AddThreadsTo(Flags& flags);  // where there is no other --threads, as no op runs
  absl::StatusOr<memory::PlannerOptions> Options() const;
};

struct StreamFlags {
  int64_t count = 1;
  std::string policy;

  void AddTo(Flags& flags);
  absl::Status SetIn(MemoryOptions* options) const;
};

// One strategy, or a plan that was saved, or no plan at all. What is not given is that of the model file's
// `training { memory { } }`.
struct MemoryFlags {
  std::string plan_file;
  StreamFlags streams;
  PlannerFlags planner;
  proto::Memory given;  // only what the command line says

  void AddTo(Flags& flags);
  // Of the files that come behind the flags the first stands first.
  absl::StatusOr<MemoryOptions> Options(absl::Span<const LoadedNetwork* const> files) const;
};

// Several strategies, dynamic memory among them. None named: all that are quick; the slow ones too where they get a
// limit in seconds.
struct StrategyListFlags {
  double slow_seconds = 0;  // for each slow strategy, unless a flag sets a limit; 0: these must be named
  std::vector<std::string> strategies;
  StreamFlags streams;
  PlannerFlags planner;
  proto::Memory given;  // but the strategy

  void AddTo(Flags& flags);
  // --memory-limit, for commands that keep one.
  void AddLimitTo(Flags& flags, const std::string& help);
  // Of the model file counts what it says about dynamic memory, and its limit; not its strategy.
  absl::StatusOr<std::vector<MemoryOptions>> Options(const LoadedNetwork& file) const;
};

}  // namespace snug::cli
