// Reads text for language models as bytes, in windows of one length; the label of each byte is the byte after it.
// Fields: tokens int32[length], label int32[length], both in [0, 256).
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "engine/train/data/dataset.h"

namespace snug::core {

struct TextOptions {
  int64_t length = 128;     // of a window, in bytes
  int64_t stride = 0;       // from one window's start to the next; 0: the length
  double from = 0, to = 1;  // the part of the file that is read; the rest can be held back
};

absl::StatusOr<std::shared_ptr<const Dataset>> OpenText(const std::string& path, const TextOptions& options);

}  // namespace snug::core
