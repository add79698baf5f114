// The flags that all commands share which compile a network or plan its memory.
#pragma once

#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "tools/cli/flags.h"

namespace snug::cli {

struct CompileFlags {
  int64_t batch = 0, threads = 0;
  bool plain_kernels = false, keep_inputs = false;
  std::string precision = "float32";
  std::vector<std::string> disabled_passes;

  void AddTo(Flags& flags);
  absl::StatusOr<CompileOptions> Options() const;
};

// How planners work, whichever is chosen.
struct PlannerFlags {
  int64_t work_limit = 0, match_range, colors;
  double time_limit = 0;
  std::string olla_mode = "auto", olla_solver;
  memory::OllaOptions olla;

  PlannerFlags();
  void AddTo(Flags& flags);
  absl::StatusOr<memory::PlannerOptions> Options() const;
};

// One strategy, or a plan that was saved.
struct MemoryFlags {
  std::string strategy, plan_file;
  PlannerFlags planner;

  void AddTo(Flags& flags);
  absl::StatusOr<MemoryOptions> Options() const;
};

// Several strategies. None named: all that are quick; the slow ones too where they get a limit in seconds.
struct StrategyListFlags {
  double slow_seconds = 0;  // for each slow strategy, unless a flag sets a limit; 0: these must be named
  std::vector<std::string> strategies;
  PlannerFlags planner;

  void AddTo(Flags& flags);
  absl::StatusOr<std::vector<MemoryOptions>> Options() const;
};

}  // namespace snug::cli
