#include <absl/strings/str_cat.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {
namespace {

// On Linux one call takes at most about 2 GiB; this is a round number below that.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

// Makes an error from errno: "path: cannot write: No space left on device".
absl::Status SystemError(const std::string& path, absl::string_view what) {
  const int error = errno;
  absl::Status status = absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot ", what));
  // For users, a file that is too large and a full quota are the same as a full disk.
  if (error != EFBIG && error != EDQUOT) return status;
  return absl::ResourceExhaustedError(status.message());
}

template <class Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }

  int fd() const { return fd_; }
  // Never retried: on Linux the descriptor is closed even when close() was interrupted.
  int Close() { return fd_ < 0 ? 0 : close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), descriptor_(fd) {}

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          Retry([&] { return write(descriptor_.fd(), bytes.data(), std::min(bytes.size(), kMaxCallBytes)); });
      if (written < 0) return SystemError(path_, "write");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    return Retry([&] { return fsync(descriptor_.fd()); }) == 0 ? absl::OkStatus() : SystemError(path_, "sync");
  }
  absl::Status Close() override {
    return descriptor_.Close() == 0 || errno == EINTR ? absl::OkStatus() : SystemError(path_, "close");
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, int fd) : path_(std::move(path)), descriptor_(fd) {}

  absl::Status Init() {
    struct stat stat = {};
    if (fstat(descriptor_.fd(), &stat) != 0) return SystemError(path_, "read its size");
    if (!S_ISREG(stat.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": expected a file, found a ", S_ISDIR(stat.st_mode) ? "folder" : "device or a pipe"));
    }
    size_bytes_ = stat.st_size;
    return absl::OkStatus();
  }

  int64_t size_bytes() const override { return size_bytes_; }
  absl::Status Read(int64_t offset, absl::Span<std::byte> bytes) const override {
    while (!bytes.empty()) {
      const ssize_t got =
          Retry([&] { return pread(descriptor_.fd(), bytes.data(), std::min(bytes.size(), kMaxCallBytes), offset); });
      if (got < 0) return SystemError(path_, "read");
      if (got == 0) {
        return absl::DataLossError(
            absl::StrCat(path_, ": expected ", bytes.size(), " more bytes at byte ", offset, ", found the end"));
      }
      bytes.remove_prefix(static_cast<size_t>(got));
      offset += got;
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  Descriptor descriptor_;
  int64_t size_bytes_ = 0;
};

std::string ParentOf(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? end : path.find_last_of('/', end);
  if (slash == std::string::npos) return path.empty() || path[0] != '/' ? "." : "/";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status PosixFileSystem::MakeDirectory(const std::string& path) {
  struct stat stat = {};
  if (::stat(path.c_str(), &stat) == 0) {
    if (S_ISDIR(stat.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path, ": expected a directory, found a file"));
  }
  if (errno != ENOENT) return SystemError(path, "look at the directory");
  const std::string parent = ParentOf(path);
  SNUG_RETURN_IF_ERROR(MakeDirectory(parent));
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return SystemError(path, "make the directory");
  return SyncDirectory(parent);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Create(const std::string& path) {
  const int fd = Retry([&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (fd < 0) return SystemError(path, "create");
  return std::make_unique<PosixWritableFile>(path, fd);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PosixFileSystem::Open(const std::string& path) {
  // O_NONBLOCK, because something that is a pipe by mistake must give an error and not be waited for.
  const int fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) return SystemError(path, "open");
  auto file = std::make_unique<PosixReadableFile>(path, fd);
  SNUG_RETURN_IF_ERROR(file->Init());
  return file;
}

absl::Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return SystemError(from, absl::StrCat("rename to ", to));
}

absl::Status PosixFileSystem::Remove(const std::string& path) {
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : SystemError(path, "remove");
}

absl::Status PosixFileSystem::SyncDirectory(const std::string& path) {
  const Descriptor descriptor(Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (descriptor.fd() < 0) return SystemError(path, "open the directory");
  // EINVAL means that this file system has nothing to sync for a directory.
  if (Retry([&] { return fsync(descriptor.fd()); }) == 0 || errno == EINVAL) return absl::OkStatus();
  return SystemError(path, "sync the directory");
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return SystemError(path, "list the directory");
  std::vector<std::string> names;
  for (;;) {
    errno = 0;  // tells the end from an error, which both give null
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return SystemError(path, "list the directory");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace snug::core::checkpoint
