// Draws pictures of a network's plans.
#pragma once

#include <absl/status/statusor.h>

#include "engine/compile/pipeline.h"
#include "tools/picture/picture.h"

namespace snug::core::cli {

// Draws the plan that `compiled` has and, with `beside`, those of the other strategies that need no long search.
absl::StatusOr<Picture> MakePicture(const Compiled& compiled, const MemoryOptions& options, bool beside);

}  // namespace snug::core::cli
