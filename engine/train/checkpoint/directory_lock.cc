#include "engine/train/checkpoint/directory_lock.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "engine/train/with_patience.h"

namespace snug::core::checkpoint {

DirectoryLock::~DirectoryLock() {
  if (directory_ >= 0) close(directory_);
}

absl::Status DirectoryLock::Take(const std::string& directory) {
  directory_ = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0) return absl::ErrnoToStatus(errno, absl::StrCat(directory, ": cannot be opened"));
  const bool free = WithPatience([&] { return flock(directory_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; });
  if (free) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      directory, ": another training keeps its checkpoints here: wait for its end, or give this one another place"));
}

}  // namespace snug::core::checkpoint
