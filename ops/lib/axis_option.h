// Reads axes as model files write them: negative ones count from the end, and the batch is touched only where it is
// named.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>

namespace snug {

// Returns the axis as a number within `rank`. It is an error to be outside, or to mean the batch by counting from the
// end: an op that cuts or joins the batch by accident is hard to find later.
absl::StatusOr<int> AxisOption(absl::string_view option, int64_t axis, int rank);

}  // namespace snug
