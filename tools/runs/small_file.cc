#include "tools/runs/small_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "engine/base/status.h"

namespace snug::core::runs {

absl::StatusOr<OpenedFile> OpenedFile::Open(const std::string& path) {
  OpenedFile file;
  file.path_ = path;
  // A pipe would let this wait for whoever writes to it, and a link could lead to what is nobody's business.
  file.descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file.descriptor_ < 0 && errno == ELOOP) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file, found a link"));
  }
  if (file.descriptor_ < 0) return absl::ErrnoToStatus(errno, path);
  struct stat found;
  if (fstat(file.descriptor_, &found) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file, found a folder or a device"));
  }
  file.size_bytes_ = found.st_size;
  file.changed_ = static_cast<double>(found.st_mtim.tv_sec) + static_cast<double>(found.st_mtim.tv_nsec) * 1e-9;
  file.device_ = found.st_dev;
  file.number_ = found.st_ino;
  return file;
}

OpenedFile::OpenedFile(OpenedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      changed_(other.changed_),
      device_(other.device_),
      number_(other.number_) {}

OpenedFile::~OpenedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<std::string> OpenedFile::Read(int64_t offset, int64_t bytes) const {
  std::string text(static_cast<size_t>(bytes), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = pread(descriptor_, text.data() + done, text.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path_);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t most_bytes) {
  SNUG_ASSIGN_OR_RETURN(const OpenedFile file, OpenedFile::Open(path));
  if (file.size_bytes() > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected at most ", most_bytes, " bytes, found ", file.size_bytes()));
  }
  return file.Read(0, file.size_bytes());
}

}  // namespace snug::core::runs
