#include "tools/cli/weights.h"

#include <cstdio>

#include "engine/base/status.h"
#include "engine/train/checkpoint/posix_file_system.h"
#include "engine/train/checkpoint/resume.h"
#include "engine/train/checkpoint/session_state.h"

namespace snug::core::cli {

absl::StatusOr<std::string> LoadWeights(const std::string& path, Session& session) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "--checkpoint: expected a safetensors file, or the directory that a training left");
  }
  checkpoint::PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const checkpoint::CheckpointStore::Found found, checkpoint::FindCheckpoint(files, path));
  for (const std::string& warning : found.warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  SNUG_RETURN_IF_ERROR(checkpoint::LoadState(session, files, found.path, checkpoint::LoadMode::kWeights).status());
  return found.path;
}

}  // namespace snug::core::cli
