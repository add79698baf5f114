// CIFAR-10 and CIFAR-100 in their binary versions: files of records, each a label (for CIFAR-100 a coarse and a fine
// one) and the bytes of an image. Several files are one dataset. Fields: image float32[3, 32, 32] in [0, 1], label
// int32, and for CIFAR-100 coarse_label int32.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/train/data/dataset.h"

namespace snug::core {

// Checks the labels.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenCifar10(const std::vector<std::string>& paths);
absl::StatusOr<std::shared_ptr<const Dataset>> OpenCifar100(const std::vector<std::string>& paths);

}  // namespace snug::core
