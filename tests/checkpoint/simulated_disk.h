// A disk in memory that forgets what was not synced: it fails, kills the program, or loses the power at the n-th call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {

enum class Fault {
  kError,      // the call fails, half done if it is a write; the program goes on
  kKill,       // the program ends in the midst of the call; what it had written stays
  kPowerLoss,  // the same, and of all that was not synced any part may be lost
};

class SimulatedDisk final : public FileSystem {
 public:
  // At the call that comes after `calls` others. `seed` decides what is lost.
  void FailAfter(int64_t calls, Fault fault, uint64_t seed);
  // For proving that the tests see it: syncs that do nothing.
  void IgnoreSyncs(bool of_files, bool of_directories) {
    ignore_file_syncs_ = of_files;
    ignore_directory_syncs_ = of_directories;
  }

  bool dead() const { return dead_; }  // after kKill and kPowerLoss every call fails
  bool fault_is_done() const { return countdown_ < 0; }
  int64_t calls() const { return calls_; }
  void Restart() { dead_ = false; }

  // Directly, as somebody else would.
  std::vector<std::string> Paths() const;
  std::string& Content(const std::string& path) { return current_.at(path)->content; }
  void Deny(const std::string& path) { denied_.insert(path); }  // may not be opened or removed

  absl::Status MakeDirectory(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;

 private:
  friend class SimulatedFile;
  struct File {
    std::string content;
    size_t synced = 0;  // so many bytes of it are safe
  };
  using Files = std::map<std::string, std::shared_ptr<File>>;

  // Counts a call; an error: it is the one to fail. `half` does what of the call may happen nevertheless.
  absl::Status Call(const std::function<void()>& half = nullptr);
  void LosePower();

  Files current_, durable_;
  std::set<std::string> directories_, denied_;
  int64_t calls_ = 0;
  int64_t countdown_ = -1;
  Fault fault_ = Fault::kError;
  std::mt19937_64 random_;
  bool dead_ = false;
  bool ignore_file_syncs_ = false, ignore_directory_syncs_ = false;
};

}  // namespace snug::core::checkpoint
