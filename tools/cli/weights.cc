#include "tools/cli/weights.h"

#include <absl/strings/str_cat.h>

#include <cstdio>
#include <filesystem>

#include "engine/base/status.h"
#include "engine/train/checkpoint/posix_file_system.h"
#include "engine/train/checkpoint/session_state.h"
#include "engine/train/checkpoint/store.h"

namespace snug::cli {
namespace {

absl::StatusOr<std::string> FileAt(checkpoint::FileSystem& files, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  const std::string inner = path + "/checkpoints";
  const std::string directory = std::filesystem::is_directory(inner, error) ? inner : path;
  SNUG_ASSIGN_OR_RETURN(const checkpoint::CheckpointStore::Found found,
                        checkpoint::CheckpointStore(&files, directory).Newest());
  for (const std::string& warning : found.warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  return found.path;
}

}  // namespace

absl::StatusOr<std::string> LoadWeights(const std::string& path, Session& session) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "--checkpoint: expected a safetensors file, or the directory that a training left");
  }
  checkpoint::PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const std::string file, FileAt(files, path));
  SNUG_RETURN_IF_ERROR(checkpoint::LoadState(session, files, file, checkpoint::LoadMode::kWeights).status());
  return file;
}

}  // namespace snug::cli
