// Axes as model files write them: negative ones count from the end, and the batch is touched only where it is named.
#pragma once

#include "ops/infer_context.h"

namespace snug {

// `axis` within `rank`; an error if it is not, or if it is the batch counted from the end (an op that cuts or joins the
// batch by accident is hard to find later).
absl::StatusOr<int> AxisOption(const InferContext& c, absl::string_view option, int64_t axis, int rank);

}  // namespace snug
