// Checkpoints of a training, as both the command and the library write and find them, and how a training goes on from
// one with the bits it would have had: what these depend on beside the network is kept in the checkpoint, and compared
// before anything is restored. So each goes on from what the other has written, on the same conditions.
//
//   SNUG_RETURN_IF_ERROR(SaveTraining(store, step, *session).status());
//   ...
//   SNUG_ASSIGN_OR_RETURN(const CheckpointStore::Found found, FindCheckpoint(files, "runs/mlp"));
//   SNUG_ASSIGN_OR_RETURN(const Resumed resumed, Resume(*session, files, found.path, {}));
#pragma once

#include <absl/status/statusor.h>

#include <set>
#include <string>
#include <vector>

#include "engine/train/checkpoint/session_state.h"
#include "engine/train/checkpoint/store.h"

namespace snug::core::checkpoint {

// Returns what a checkpoint's metadata say of the session: network, samples in a step, micro-batches, seed, precision,
// optimizer and the types that it keeps, rule of weight decay, threads of each op, tuning, platform.
Metadata ConditionsOf(const Session& session);

// Writes a checkpoint with all that Resume needs to go on from it.
// `more` are further words of the caller's for its metadata.
absl::StatusOr<CheckpointStore::Saved> SaveTraining(CheckpointStore& store, int64_t step, Session& session,
                                                    const Metadata& more = {});
// The same as the best of the training (CheckpointStore::SaveBest).
absl::StatusOr<CheckpointStore::Saved> SaveBest(CheckpointStore& store, int64_t step, Session& session,
                                                const Metadata& more);

// Writes the mean of the checkpoints of these steps: their parameters and statistics (CheckpointStore::SaveAverage).
absl::StatusOr<CheckpointStore::Saved> SaveAverage(CheckpointStore& store, const std::vector<int64_t>& steps);

// Finds the checkpoint that `path` means. A file is taken as it is. In a directory of checkpoints, or in the folder
// that a training left and that holds one, it is the newest that is complete.
absl::StatusOr<CheckpointStore::Found> FindCheckpoint(FileSystem& files, const std::string& path);

struct ResumeOptions {
  // Whether what changes the rounding alone may differ: threads, tuning, micro-batches and the platform. Samples, seed,
  // precision, optimizer and network never may.
  bool other_rounding = false;
  std::set<std::string> not_compared = {};  // conditions that the caller compares
  // `what` begins the error ("--resume: "); the advice after it says what can be done.
  std::string what, advice, rounding_advice;
};

struct Resumed {
  std::vector<std::string> differences;  // what differs and changes the rounding, where that was allowed: a sentence
                                         // each, for users
};

// Compares the session's conditions with those of the checkpoint. Fails with InvalidArgument, which names every one
// that differs and must not. Conditions that an older checkpoint does not name are not compared.
absl::StatusOr<Resumed> CompareConditions(const Session& session, FileSystem& files, const std::string& path,
                                          const ResumeOptions& options);

// Does what LoadState does with kResume if CompareConditions finds nothing wrong. Otherwise it fails as that does, and
// leaves the session as it is.
absl::StatusOr<Resumed> Resume(Session& session, FileSystem& files, const std::string& path,
                               const ResumeOptions& options);

}  // namespace snug::core::checkpoint
