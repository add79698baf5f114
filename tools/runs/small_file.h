// Reads a file that somebody else may be writing, or may have put there to do harm: it is no larger than it may be, and
// is a file, not a pipe that never ends, nor a link to another file.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace snug::core::runs {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t most_bytes);

// A descriptor of a regular file that is open for reading, closed at the end.
class OpenedFile {
 public:
  // NotFound where there is none of that name. A link of that name is an error; the folder may be reached by one.
  static absl::StatusOr<OpenedFile> Open(const std::string& path);
  OpenedFile(OpenedFile&& other) noexcept;
  OpenedFile& operator=(OpenedFile&&) = delete;
  ~OpenedFile();

  int descriptor() const { return descriptor_; }
  int64_t size_bytes() const { return size_bytes_; }
  double changed() const { return changed_; }  // seconds since 1970
  // Which file it is, whatever its name is by now.
  uint64_t device() const { return device_; }
  uint64_t number() const { return number_; }
  // As many as there are, up to `bytes`.
  absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) const;

 private:
  OpenedFile() = default;

  std::string path_;
  int descriptor_ = -1;
  int64_t size_bytes_ = 0;
  double changed_ = 0;
  uint64_t device_ = 0, number_ = 0;
};

}  // namespace snug::core::runs
