// Tasks that can be learnt without files: every sample is drawn when it is read, from (seed, index) alone, with the
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

namespace snug::core {

struct SyntheticOptions {
  uint64_t seed = 0;
  bool held_back = false;
  int64_t samples = 0;  // 0: the task's own number
};

struct SyntheticTask {
  absl::string_view name;
  absl::string_view doc;                                              // a line for the help
  int64_t samples, held_back_samples;                                 // the default numbers
  std::unique_ptr<Dataset> (*make)(const SyntheticOptions& options);  // options.samples must be set
};

absl::Span<const SyntheticTask> SyntheticTasks();

// The error for an unknown task lists the names.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeSynthetic(absl::string_view task, const SyntheticOptions& options);

}  // namespace snug::core
