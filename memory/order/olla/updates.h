// Section 4.3 of OLLA: control edges that make weight updates run early, so that the gradients' bytes go early. They
// can also cost bytes: a large gradient may be best computed and applied after the activations are gone, and they force
// it before.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/tasks.h"

namespace snug::core::memory {

// Returns one edge for each task that writes no bytes and frees some, if there is a task that it can run before.
std::vector<std::pair<int32_t, int32_t>> EarlyUpdateEdges(const Tasks& tasks);

}  // namespace snug::core::memory
