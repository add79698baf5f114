// The flags shared by all commands that compile a network. Each is defined here once and means the same in every
// command; tests/cli/common_flags_test.py says which command takes which.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "engine/compile/compile_settings.h"
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

}  // namespace snug::core::cli
