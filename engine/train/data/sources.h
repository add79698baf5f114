// IDX, the format of MNIST, Fashion-MNIST and EMNIST: one file of images, one of labels, gzipped or not.
// Fields: image float32[1, height, width] in [0, 1], label int32.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "engine/train/data/dataset.h"

namespace snug::core {

// Checks that the labels lie in [0, classes).
absl::StatusOr<std::shared_ptr<const Dataset>> OpenIdx(const std::string& images, const std::string& labels,
                                                       int64_t classes = 10);

}  // namespace snug::core
