// How a training goes on from a checkpoint with the bits it would have had: what these depend on beside the network is
// kept in the checkpoint, and compared before anything is restored. The command and the library both do it through
// here, so that each goes on from what the other has written, on the same conditions.
//
//   store.Save(step, StateOf(*session), ConditionsOf(session->compiled(), seed));
//   ...
//   SNUG_ASSIGN_OR_RETURN(const Resumed resumed, Resume(*session, files, path, {.seed = seed}));
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/checkpoint/session_state.h"

namespace snug::checkpoint {

// For the metadata of a checkpoint: network, samples in a step, micro-batches, seed, precision, rule of weight decay,
// threads of each op, tuning, platform.
Metadata ConditionsOf(const Compiled& compiled, uint64_t seed);

struct ResumeOptions {
  uint64_t seed = 0;  // of this training
  // Whether what changes the rounding alone may differ: threads, tuning, micro-batches and the platform. Samples, seed,
  // precision and network never may.
  bool other_rounding = false;
  // What stands before the error ("--resume: "), and what can be done, after it.
  std::string what, advice, rounding_advice;
};

struct Resumed {
  std::vector<std::string> differences;  // that change the rounding, where that was allowed: each a sentence for users
};

// As LoadState with kResume, if the conditions are those of the checkpoint; otherwise InvalidArgument names every one
// that differs, and the session stays as it is. What a checkpoint does not name is not compared: it is older.
absl::StatusOr<Resumed> Resume(Session& session, FileSystem& files, const std::string& path,
                               const ResumeOptions& options);

}  // namespace snug::checkpoint
