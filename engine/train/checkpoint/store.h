// A directory of checkpoints, `step-000000042.safetensors`. The newest complete one can always be loaded, whatever
// happens to the program or the machine while another one is written.
//
// Saving writes a temporary file in the same directory, syncs it, renames it, and syncs the directory; only then are
// the oldest ones removed. Loading does not trust names: a checkpoint is complete if its content matches the checksum
// in it.
//
// Thread-compatible. Only one program at a time may save into a directory.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/safetensors.h"

namespace snug::core::checkpoint {

inline constexpr absl::string_view kStepKey = "snug.step";     // a key in the metadata
inline constexpr absl::string_view kAveragedKey = "averaged";  // of an average: the steps of its checkpoints

struct StoreOptions {
  int keep_last = 3;  // so many checkpoints stay; at least 1
};

class CheckpointStore {
 public:
  // Touches no file yet. `files` must outlive this.
  CheckpointStore(FileSystem* files, std::string directory, const StoreOptions& options = {})
      : files_(files), directory_(std::move(directory)), options_(options) {}

  struct Saved {
    std::string path;
    std::vector<std::string> warnings;  // an average that is gone, old files that could not be removed
  };
  // Once this has returned OK, the checkpoint survives a loss of power. After an error the other checkpoints are as
  // they were. An average that is there was one of older checkpoints, so it goes. Makes the directory if needed. Keys
  // of the metadata that begin with "snug." belong to the store.
  absl::StatusOr<Saved> Save(int64_t step, const std::vector<TensorBytes>& tensors, const Metadata& metadata);

  // Writes a checkpoint of its own name, `best.safetensors`, in place of the one before, with the same promises. None
  // of the others is removed for it, and it is none of those that Newest and Steps look at.
  absl::StatusOr<Saved> SaveBest(int64_t step, const std::vector<TensorBytes>& tensors, const Metadata& metadata);
  std::string BestPath() const;

  // Writes `average.safetensors` in the same way, the mean of the checkpoints of these steps, ascending: of the tensors
  // that `wanted` picks of the newest by their names (average.h). Reads them a part at a time.
  absl::StatusOr<Saved> SaveAverage(const std::vector<int64_t>& steps,
                                    const std::function<bool(const SafetensorsFile&, const std::string&)>& wanted);
  std::string AveragePath() const;

  // Says which checkpoints count in `keep_last`; without this, all do. The others, which a training has only because it
  // was interrupted or was asked for other steps before, displace none of those: the newest of them stay in the places
  // that are left over, and the one that was saved just now stays in any case.
  void CountOnly(std::function<bool(int64_t step)> counts) { counts_ = std::move(counts); }

  // Finishes what another program left that was killed after saving `step`: it removes old checkpoints and the
  // beginnings of new ones. It is for a program that has nothing to add to that step. Returns warnings, as Save does.
  std::vector<std::string> Tidy(int64_t step);

  struct Found {
    int64_t step = 0;  // -1: not known
    std::string path;
    std::vector<std::string> warnings;  // newer checkpoints that are damaged, and what is wrong with each
  };
  // Returns the complete checkpoint of the highest step. Fails with NotFound when there is none, or no directory, and
  // with PermissionDenied when one may not be read: falling back silently to an older one is not what its owner wants.
  absl::StatusOr<Found> Newest() const;

  // Returns the steps for which there is a file, complete or not, in ascending order.
  absl::StatusOr<std::vector<int64_t>> Steps() const;
  std::string PathOf(int64_t step) const;

 private:
  // What a checkpoint holds, whether it lies in memory or is made as it is written.
  struct Content {
    std::function<absl::StatusOr<std::string>(const Metadata&)> digest;
    std::function<absl::Status(const Metadata&, WritableFile&)> write;
  };
  static Content ContentOf(const std::vector<TensorBytes>& tensors);
  absl::StatusOr<Saved> SaveAs(const std::string& path, int64_t step, const Content& content, const Metadata& metadata);
  absl::Status Write(const std::string& path, const Content& content, const Metadata& metadata);
  void RemoveOld(int64_t step, std::vector<std::string>* warnings);
  void RemoveLeftovers(std::vector<std::string>* warnings);
  void RemoveAverage(std::vector<std::string>* warnings);

  FileSystem* files_;
  std::string directory_;
  StoreOptions options_;
  std::function<bool(int64_t step)> counts_;  // empty: all do
};

}  // namespace snug::core::checkpoint
