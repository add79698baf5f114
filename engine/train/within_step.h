// Handles the Variables of one step's micro-batches (VariableRole::kWithinStep): their sums, and the random numbers of
// each.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "engine/run/session/session.h"

namespace snug::core {

// Must be called before micro-batch `part` of `parts`. Layers that draw random numbers draw other ones in every
// micro-batch, which depend only on its number in the training. Does nothing where no layer draws any.
absl::Status SetDraw(Session& session, int64_t part, int64_t parts);

// Clears what a step that did not reach its end has left.
void ClearSums(Session& session);

}  // namespace snug::core
