// The flags that all commands share which compile a network or plan its memory. Each is defined here once, and means
// the same wherever it is taken; tests/cli/common_flags_test.py says which command takes which.
#pragma once

#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "tools/cli/allocator_flags.h"
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

// A planner's, or kDynamicMemory.
absl::Status CheckStrategyName(const std::string& name);

// How planners work, whichever is chosen.
struct PlannerFlags {
  int64_t work_limit = 0, match_range, colors, threads = 0;
  double time_limit = 0;
  std::string olla_mode = "auto", olla_solver;
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

struct MemoryLimitFlag {
  std::string text;

  void AddTo(Flags& flags,
             const char* help = "the most bytes, Variables included, that a step may take, as 8GiB or 500MB");
  absl::StatusOr<int64_t> Bytes() const;  // 0: there is none
};

// One strategy, or a plan that was saved, or no plan at all.
struct MemoryFlags {
  std::string strategy, plan_file;
  StreamFlags streams;
  PlannerFlags planner;
  AllocatorFlags allocator;
  MemoryLimitFlag limit;

  void AddTo(Flags& flags);
  absl::StatusOr<MemoryOptions> Options() const;
};

// Several strategies, dynamic memory among them. None named: all that are quick; the slow ones too where they get a
// limit in seconds.
struct StrategyListFlags {
  double slow_seconds = 0;  // for each slow strategy, unless a flag sets a limit; 0: these must be named
  std::vector<std::string> strategies;
  StreamFlags streams;
  PlannerFlags planner;
  AllocatorFlags allocator;

  void AddTo(Flags& flags);
  absl::StatusOr<std::vector<MemoryOptions>> Options() const;
};

}  // namespace snug::cli
