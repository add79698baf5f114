// The files of this machine.
#pragma once

#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {

// Thread-safe, because it has no state.
class PosixFileSystem final : public FileSystem {
 public:
  absl::Status MakeDirectory(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
};

}  // namespace snug::core::checkpoint
