// Which data a training has used from which step on, as its checkpoints keep it: data of another number or order, and
// batches of another size, begin with an epoch of their own.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>

#include "engine/train/trainer.h"

namespace snug::core::cli {

// What a training goes on with from a checkpoint after `step` steps, whose metadata these are. `begins_epoch` says that
// the samples come in another order from here on: they begin with the first epoch that was not begun, and what is left
// of the epoch before is left out. `other_samples` says that there may have been another number of samples until now.
absl::StatusOr<Trainer::DataBegin> DataBeginOf(const std::map<std::string, std::string>& metadata,
                                               const Trainer& trainer, int64_t step, bool begins_epoch,
                                               bool other_samples);

// Adds it to the metadata of a checkpoint.
void KeepDataBegin(const Trainer& trainer, std::map<std::string, std::string>* metadata);

}  // namespace snug::core::cli
