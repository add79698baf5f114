// The flags that say what a training step does, for the commands that train: `snug train` and `snug find-lr`.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/train/trainer.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/run_flags.h"
#include "tools/cli/flags/training_options.h"

namespace snug::core::cli {

struct TrainingFlags {
  std::string training_file, init_from;
  std::vector<std::string> init_patterns;  // empty: all tensors are loaded
  CompileFlags compile;
  MemoryFlags memory;
  RunFlags run;
  TrainingOptions options;  // only what the command line says

  void AddTrainingFile(Flags& flags);
  void AddInit(Flags& flags);
  // All others, each under its heading. `more` adds what else says how it computes. Flags of `training { }` and
  // `optimizer { }` that are named in the sets are left out.
  void AddSections(
      Flags& flags, const std::function<void()>& more = [] {}, const std::set<std::string>& without_training = {},
      const std::set<std::string>& without_optimizer = {});

  // Returns the options of all files and of the flags, and takes from them what the flags for compiling leave open.
  absl::StatusOr<TrainingOptions> Settle(const LoadedNetwork& loaded);
  // For a trainer with these options, which must outlive it.
  absl::StatusOr<TrainerOptions> ForTrainer(const TrainingOptions& given) const;
  // Loads what --init-from names, if it does, and says what.
  absl::Status Initialise(Session& session, std::FILE* out) const;
};

}  // namespace snug::core::cli
