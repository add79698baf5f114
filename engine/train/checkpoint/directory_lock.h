// Keeps other trainings out of a directory of checkpoints. The system ends this with the program, however that ends.
#pragma once

#include <absl/status/status.h>

#include <string>

namespace snug::core::checkpoint {

class DirectoryLock {
 public:
  DirectoryLock() = default;
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // The directory must be there. Where the file system has no locks, nobody is kept out.
  absl::Status Take(const std::string& directory);

 private:
  int directory_ = -1;
};

}  // namespace snug::core::checkpoint
