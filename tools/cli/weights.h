// Parameters from a checkpoint, for commands that do not train.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/run/session.h"

namespace snug::cli {

// `path`: a safetensors file, or a directory with checkpoints in it (or in its `checkpoints/`), of which the newest
// complete one is taken. The file that was loaded.
absl::StatusOr<std::string> LoadWeights(const std::string& path, Session& session);

}  // namespace snug::cli
