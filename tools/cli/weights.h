// Loads parameters from a checkpoint, for commands that do not train.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/run/session/session.h"

namespace snug::core::cli {

// `path` is a safetensors file, or a directory that holds checkpoints itself or in `checkpoints/`, of which the newest
// complete one is taken. Returns the file that was loaded.
absl::StatusOr<std::string> LoadWeights(const std::string& path, Session& session);

}  // namespace snug::core::cli
