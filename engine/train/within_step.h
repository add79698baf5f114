// The Variables of one step's micro-batches (VariableRole::kWithinStep): what they add up to, and the random numbers
// of each.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/run/session.h"

namespace snug {

// Before micro-batch `part` of `parts`: layers that draw random numbers draw others in every micro-batch of a training,
// by its number in the training alone. Nothing, where no layer does.
absl::Status SetDraw(Session& session, int64_t part, int64_t parts);

// A step that does not come to its end leaves no trace.
void ClearSums(Session& session);

}  // namespace snug
