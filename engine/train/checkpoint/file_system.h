// The few calls that durable writing takes, as an interface: so that a test can fail, or lose the power, at each of
// them. Errors name the path and say what the system said: ResourceExhausted for a full disk, PermissionDenied,
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

namespace snug::checkpoint {

// Closed when destroyed. What was written may be lost, in any part, until Sync has returned OK.
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
  // All of `bytes`; DataLoss if the file ends before.
  virtual absl::Status Read(int64_t offset, absl::Span<std::byte> bytes) const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // With its parents; one that is there is fine.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Empty, in the place of what was there.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // At once, for everyone who looks: `to` is what it was, or what `from` was.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Creations, renames and removals in a directory may be lost, each by itself, until this has returned OK.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;  // names, sorted
};

}  // namespace snug::checkpoint
