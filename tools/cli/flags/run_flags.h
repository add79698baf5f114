// The flags shared by all commands that run steps: which engine runs them and where, and what watches it.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

struct RunFlags {
  std::string engine, cuda_graph = "on";
  double watchdog = 0;
  bool watchdog_abort = false, check_access = false, strict_kernels = false;

  void AddTo(Flags& flags);
  // Returns options without the seed. Checks need one thread per op, and set that in `compile` unless --threads was
  // given.
  absl::StatusOr<SessionOptions> Options(bool threads_given, CompileOptions* compile) const;
};

// `--device`: where steps run.
void AddDeviceFlag(Flags& flags, std::string* text);

// Writes to standard error which nodes may give other bits each time, if any.
void SayWhatVaries(const Compiled& compiled);

}  // namespace snug::core::cli
