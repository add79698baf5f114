// Tasks that can be learnt and need no files: every sample is drawn when it is read, from (seed, index) alone, with the
// same bytes on every machine. Held-back samples are other draws of the same kind.
//
//   digits    drawn digits: image float32[1, 28, 28] in [0, 1], label int32 in [0, 10)
//   textures  patterns in colour: image float32[3, 32, 32] in [0, 1], label int32 in [0, 10)
//   spiral    point float32[2], label int32 in [0, 3)
//   copy      tokens int32[32] in [0, 32), label int32[32]: the next token, or kIgnoredLabel where nobody can know it
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/train/data/dataset.h"

namespace snug {

struct SyntheticOptions {
  uint64_t seed = 0;
  bool held_back = false;
  int64_t samples = 0;  // 0: what the task has by default
};

struct SyntheticTask {
  absl::string_view name;
  absl::string_view doc;                                              // one line
  int64_t samples, held_back_samples;                                 // by default
  std::unique_ptr<Dataset> (*make)(const SyntheticOptions& options);  // `samples` is set
};

absl::Span<const SyntheticTask> SyntheticTasks();

// The error lists the names.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeSynthetic(absl::string_view task, const SyntheticOptions& options);

}  // namespace snug
