// The few calls that durable writing needs, as an interface, so that a test can let each of them fail or lose the power
// there. Errors name the path and give the system's own words: ResourceExhausted for a full disk, PermissionDenied,
// NotFound.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace snug::core::checkpoint {

// It is closed when destroyed. Any part of what was written may be lost until Sync has returned OK.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual int64_t size_bytes() const = 0;
  // Reads all of `bytes`; fails with DataLoss if the file ends before.
  virtual absl::Status Read(int64_t offset, absl::Span<std::byte> bytes) const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Makes parents too. It is no error if the directory is there already.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Creates an empty file, in place of what was there.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Renames in one instant: everyone sees either what `to` was before, or what `from` was.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Creations, renames and removals in a directory may each be lost until this has returned OK.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;  // names, sorted
};

// The files of this machine. Thread-safe, because it has no state.
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
