// Splits a Dataset in two: the part to train on, and the part that is held back.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>

#include "engine/train/data/dataset.h"

namespace snug::core {

struct PartedDataset {
  std::shared_ptr<const Dataset> training, held_back;
};

// Holds back a fraction of the samples, at least one. `seed` alone decides which.
absl::StatusOr<PartedDataset> HoldBack(std::shared_ptr<const Dataset> dataset, double fraction, uint64_t seed);

}  // namespace snug::core
