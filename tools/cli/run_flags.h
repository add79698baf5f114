// The flags that all commands share which run steps: which engine, and what watches it.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/run/session.h"
#include "tools/cli/flags.h"

namespace snug::cli {

struct RunFlags {
  std::string engine, cuda_graph = "on";
  double watchdog = 0;
  bool watchdog_abort = false, check_access = false;

  void AddTo(Flags& flags);
  // Without the seed. Checks want one thread per op: `compile` gets it where --threads was not given.
  absl::StatusOr<SessionOptions> Options(bool threads_given, CompileOptions* compile) const;
};

}  // namespace snug::cli
