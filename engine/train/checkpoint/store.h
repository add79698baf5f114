// A directory of checkpoints, `step-000000042.safetensors`, of which the newest complete one can always be had,
// whatever happened to the program or the machine while another was written.
//
// Saving writes a temporary file in the same directory, syncs it, renames it, syncs the directory; only then the oldest
// ones go. Loading believes no name: a checkpoint is complete if the checksum of its content, kept in it, is right.
//
// Thread-compatible; one program at a time may save into a directory.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/safetensors.h"

namespace snug::checkpoint {

inline constexpr absl::string_view kStepKey = "snug.step";  // in the metadata

struct StoreOptions {
  int keep_last = 3;  // how many checkpoints stay, at least 1
};

class CheckpointStore {
 public:
  // Nothing is touched yet. `files` must outlive this.
  CheckpointStore(FileSystem* files, std::string directory, const StoreOptions& options = {})
      : files_(files), directory_(std::move(directory)), options_(options) {}

  struct Saved {
    std::string path;
    std::vector<std::string> warnings;  // old files that could not be removed
  };
  // Once this has returned, the checkpoint outlasts a loss of power. On an error the others are as they were. Makes the
  // directory if needed. The keys "snug.*" of the metadata are the store's own.
  absl::StatusOr<Saved> Save(int64_t step, const std::vector<TensorBytes>& tensors, const Metadata& metadata);

  // For a program that has nothing to add to `step`, which another saved that was killed then: removes what that one
  // would have, old checkpoints and the beginnings of new ones. Returns warnings, as Save does.
  std::vector<std::string> Tidy(int64_t step);

  struct Found {
    int64_t step = 0;
    std::string path;
    std::vector<std::string> warnings;  // newer ones that are damaged, and what is wrong with each
  };
  // The complete checkpoint of the highest step. NotFound: there is none, or no directory. PermissionDenied if one may
  // not be read: to go back to an older one in silence is not what its owner wants.
  absl::StatusOr<Found> Newest() const;

  // Steps for which there is a file, complete or not, in ascending order.
  absl::StatusOr<std::vector<int64_t>> Steps() const;
  std::string PathOf(int64_t step) const;

 private:
  absl::Status Write(const std::string& path, const std::vector<TensorBytes>& tensors, const Metadata& metadata);
  void RemoveOld(int64_t step, std::vector<std::string>* warnings);
  void RemoveLeftovers(std::vector<std::string>* warnings);

  FileSystem* files_;
  std::string directory_;
  StoreOptions options_;
};

}  // namespace snug::checkpoint
